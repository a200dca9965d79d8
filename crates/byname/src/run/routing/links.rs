//! Proofs over QUIC that a router is one of the network (`byname_secure::NetworkKeys`).
//!
//! A proof is two packets: Data that the router's key signed, and the certificate of that key, which the network's anchor
//! signed. The Data has the name `/<router>/32=DV/32=LINK/<binding>`, so that its signature covers the binding of the
//! connection, and no content. It is no packet that anybody fetches. Lists of revoked certificates hold here, too.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use byname_control::config::Config;
use byname_secure::{Binding, NetworkKeys};
use byname_trust::validator::{Begun, DomainSet, Origin, Signed};
use byname_trust::{Certificate, Moment};
use byname_wire::data::DataBuilder;
use byname_wire::name::component_type::KEYWORD;
use byname_wire::{Component, Data, Name, tlv};

use super::application::unix_ms;
use super::identity::Identity;
use crate::key::router_identity;

/// The keyword of the names of proofs.
const LINK: Component<'static> = Component { typ: KEYWORD, value: b"LINK" };
/// The folder with keys is read again after this time: they are renewed and revoked while the router runs.
const READ_INTERVAL: Duration = Duration::from_secs(10);
/// Components after the router's name: `32=DV`, `32=LINK` and the binding.
const COMPONENTS: usize = 3;

/// The keys of the network that this router belongs to, if it has some.
pub fn network_keys(config: &Config) -> Option<NetworkKeys> {
    config.has_network_keys().then(|| {
        let here = Arc::new(Here { config: config.clone(), latest: Mutex::new(None) });
        let there = Arc::clone(&here);
        NetworkKeys {
            prove: Box::new(move |binding| here.prove(binding).map_err(|error| format!("{error:#}"))),
            check: Box::new(move |message, binding| {
                there.check(message, binding).map_err(|error| format!("{error:#}"))
            }),
        }
    })
}

/// This router's keys.
struct Here {
    config: Config,
    latest: Mutex<Option<(Instant, Arc<Identity>)>>,
}

impl Here {
    fn identity(&self) -> anyhow::Result<Arc<Identity>> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, identity)) = &*latest
            && at.elapsed() < READ_INTERVAL
        {
            return Ok(Arc::clone(identity));
        }
        let identity = Arc::new(Identity::load(&self.config, unix_ms())?);
        *latest = Some((Instant::now(), Arc::clone(&identity)));
        Ok(identity)
    }

    fn prove(&self, binding: &Binding) -> anyhow::Result<Vec<u8>> {
        let identity = self.identity()?;
        proof(&identity, &self.config.routing.name, binding)
    }

    fn check(&self, message: &[u8], binding: &Binding) -> anyhow::Result<String> {
        let identity = self.identity()?;
        router_of(&identity, message, binding)
    }
}

fn proof(identity: &Identity, router: &Name, binding: &Binding) -> anyhow::Result<Vec<u8>> {
    let certificate = identity.certificate.as_ref().ok_or_else(|| anyhow::anyhow!("this router has no certificate"))?;
    let name = router_identity(router).join(LINK).join(Component::generic(binding));
    let mut message = identity.signer()?.sign_data(&DataBuilder::new(name))?;
    message.extend_from_slice(&certificate.packet);
    Ok(message)
}

/// The router that proves itself with this message.
fn router_of(identity: &Identity, message: &[u8], binding: &Binding) -> anyhow::Result<String> {
    let len = tlv::element_len(message, message.len())?.filter(|len| *len < message.len());
    let len = len.ok_or_else(|| anyhow::anyhow!("the proof is cut"))?;
    let (proof, certificate) = (Data::decode(&message[..len])?, Certificate::decode(&message[len..])?);
    let name = proof.name;
    let is_bound = name.len() > COMPONENTS
        && name.component(-1) == Some(Component::generic(binding))
        && name.component(-2) == Some(LINK);
    anyhow::ensure!(is_bound, "the proof is of another connection");
    let now = Moment { ms: 0, unix_ms: unix_ms() };
    let mut validator = identity.validator().with_certificates(identity.served().cloned().chain([certificate]));
    match validator.begin(&Signed::data(&proof), DomainSet::one(0), Origin::default(), now) {
        Begun::Done(outcome) => {
            outcome.map(|_| name.prefix(name.len() - COMPONENTS).to_name().to_string()).map_err(Into::into)
        }
        // Nothing is fetched: whoever proves brings what is needed.
        Begun::Waiting(_) => anyhow::bail!("the certificate is not one that the network's anchor has signed"),
    }
}
