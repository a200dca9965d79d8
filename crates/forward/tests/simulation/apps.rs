//! Applications at the edge of the network.

use std::time::Duration;

use byname_embed::{App, Consumer, Producer, Sent};
use byname_forward::{LinkFields, Packet, Ticks};
use byname_wire::Name;
use byname_wire::interest::InterestBuilder;
use byname_wire::name::component_type;

/// The content of a name, which a consumer can check.
fn content_of(name: &Name) -> Vec<u8> {
    name.value().iter().rev().copied().cycle().take(200).collect()
}

/// Fetches names, and accepts only the content that [`producer`] gives them.
pub fn consumer(names: impl IntoIterator<Item = Name>, seed: u64) -> Consumer {
    Consumer::new(names, seed).accepts(|data| data.content == content_of(&data.name.to_name()))
}

/// Answers every Interest, and those that may be prefixes with a version.
pub fn producer() -> Producer {
    Producer::new(content_of).version(1)
}

/// Asks for a new name each time, many times per ms, and ignores answers.
pub struct Flooder {
    pub prefix: String,
    pub names_per_ms: u64,
    pub left: u64,
}

impl App for Flooder {
    fn receive(&mut self, _: Ticks, _: &LinkFields, _: &Packet, _: &mut Sent) {}

    fn tick(&mut self, now: Ticks, sent: &mut Sent) -> Option<Ticks> {
        for _ in 0..self.names_per_ms.min(self.left) {
            self.left -= 1;
            let name: Name = self.prefix.parse().expect("a literal name");
            let interest =
                InterestBuilder::new(name.join_number(component_type::SEQUENCE_NUM, self.left), self.left as u32);
            sent.push((LinkFields::default(), Packet::copy_from(&interest.lifetime_ms(2000).encode())));
        }
        (self.left > 0).then(|| now + Duration::from_millis(1))
    }
}
