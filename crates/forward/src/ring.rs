//! A bounded lock-free ring from one thread to one other. It connects two packet threads [So §3.4; Yuan §3.4].
//!
//! Only the producer writes `tail`, and only the consumer writes `head`. Both counts only grow; the slot of a count is
//! its lower bits. Each side caches the other's count. It reads the shared count only when the cached one says that the
//! ring is full or empty. So a burst costs each side about one cache line of the other's.
//!
//! A full ring refuses items: the producer drops them, and no thread waits.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::sync::Arc;

use byname_lookup::memory::{self, Refused};
use byname_lookup::prefetch;

use crate::sync::{AtomicU64, Ordering, UnsafeCell};

/// Bytes of slots to prefetch ahead, on both sides: each slot was reached by the other side last. As many cache lines as
/// a processor can wait for at once.
const AHEAD_BYTES: usize = 1024;

/// Number of slots to prefetch ahead.
const fn ahead<T>() -> u64 {
    let slots = AHEAD_BYTES / if size_of::<T>() == 0 { 1 } else { size_of::<T>() };
    if slots == 0 { 1 } else { slots as u64 }
}

/// Alone in its cache line, and in the neighbor line that processors fetch with it.
#[repr(align(128))]
struct Padded<T>(T);

struct Shared<T> {
    /// Items taken so far.
    head: Padded<AtomicU64>,
    /// Items pushed so far.
    tail: Padded<AtomicU64>,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: the producer alone reaches a slot while its count is in `tail..head + capacity`, and the consumer alone while
// its count is in `head..tail`. The release stores and acquire loads of the two counts hand the slot over. There is one
// producer and one consumer: `ring` makes one of each, neither can be cloned, and their methods take `&mut`. Items go
// from one thread to another, so `T` must be `Send`.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above; the last owner drops the items that are left.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    fn slot(&self, count: u64) -> &UnsafeCell<MaybeUninit<T>> {
        // The length is a power of two.
        &self.slots[count as usize & (self.slots.len() - 1)]
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        for count in self.head.0.load(Ordering::Relaxed)..self.tail.0.load(Ordering::Relaxed) {
            // SAFETY: slots in `head..tail` hold items, and no other thread can reach them any more.
            self.slot(count).with_mut(|slot| unsafe { (*slot).assume_init_drop() });
        }
    }
}

/// Makes a ring that holds `capacity` items, rounded up to a power of two.
///
/// # Errors
/// If the system refuses memory.
pub fn ring<T: Send>(capacity: usize) -> Result<(Producer<T>, Consumer<T>), Refused> {
    let len = capacity.max(1).checked_next_power_of_two().unwrap_or(usize::MAX);
    let mut slots = memory::with_room(len)?;
    slots.extend((0..len).map(|_| UnsafeCell::new(MaybeUninit::uninit())));
    let slots = slots.into_boxed_slice();
    let shared = Arc::new(Shared { head: Padded(AtomicU64::new(0)), tail: Padded(AtomicU64::new(0)), slots });
    let producer = Producer { shared: Arc::clone(&shared), tail: 0, published: 0, head_seen: 0 };
    Ok((producer, Consumer { shared, head: 0, tail_seen: 0 }))
}

/// The producer's end.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    /// Items pushed, published or not.
    tail: u64,
    published: u64,
    /// The last value of `head` that this side read.
    head_seen: u64,
}

impl<T: Send> Producer<T> {
    /// Adds an item. The consumer sees it after [`Producer::publish`].
    ///
    /// # Errors
    /// Returns the item if the ring is full.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        match self.append(item) {
            Ok(_) => Ok(()),
            Err(item) => Err(item),
        }
    }

    /// As [`Producer::push`]. The caller may go on to fill the item in place, which is cheaper than to move a large item
    /// that was written just before.
    ///
    /// # Errors
    /// As [`Producer::push`].
    #[inline(always)]
    pub fn append(&mut self, item: T) -> Result<&mut T, T> {
        if self.is_full() {
            return Err(item);
        }
        prefetch::write_all(self.shared.slot(self.tail + ahead::<T>()));
        let slot = self.shared.slot(self.tail);
        self.tail += 1;
        // SAFETY: the slot's count is in `tail..head + capacity`, so the slot is ours. The consumer has taken its item
        // (acquire in `depth`) and does not look at it before `publish`, which needs this producer's borrow to end.
        Ok(slot.with_mut(|slot| unsafe { (*slot).write(item) }))
    }

    /// Lets the consumer see all pushed items. Returns whether there were new ones.
    #[inline]
    pub fn publish(&mut self) -> bool {
        let new = self.tail != self.published;
        if new {
            // Release: a consumer that sees the count sees the items.
            self.shared.tail.0.store(self.tail, Ordering::Release);
            self.published = self.tail;
        }
        new
    }

    /// Whether at least half of the ring is taken.
    pub fn is_half_full(&mut self) -> bool {
        let half = self.shared.slots.len().div_ceil(2);
        (self.tail - self.head_seen) as usize >= half && self.depth() >= half
    }

    /// Number of items in the ring.
    pub fn depth(&mut self) -> usize {
        // Acquire: the consumer has read the slots below this count.
        self.head_seen = self.shared.head.0.load(Ordering::Acquire);
        (self.tail - self.head_seen) as usize
    }

    /// Number of items pushed since the ring was made.
    pub fn pushed(&self) -> u64 {
        self.tail
    }

    /// Whether the consumer is gone.
    pub fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }

    fn is_full(&mut self) -> bool {
        let capacity = self.shared.slots.len();
        (self.tail - self.head_seen) as usize == capacity && self.depth() == capacity
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        // Items that were pushed and not published still go to the consumer, which takes or drops them.
        self.shared.tail.0.store(self.tail, Ordering::Release);
    }
}

/// The consumer's end.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    head: u64,
    /// The last value of `tail` that this side read.
    tail_seen: u64,
}

impl<T: Send> Consumer<T> {
    /// Number of items that can be taken now.
    #[inline]
    pub fn available(&mut self) -> usize {
        // Acquire: the items below this count are written.
        self.tail_seen = self.shared.tail.0.load(Ordering::Acquire);
        (self.tail_seen - self.head) as usize
    }

    /// Appends up to `items_max` items to `out` and returns their number.
    pub fn pop_into(&mut self, out: &mut Vec<T>, items_max: usize) -> usize {
        let known = (self.tail_seen - self.head) as usize;
        let count = if known >= items_max { items_max } else { self.available().min(items_max) };
        out.reserve(count);
        // Not beyond the last item: the producer has those slots in its cache, and is about to write them.
        let end = self.head + count as u64;
        (self.head..end.min(self.head + ahead::<T>())).for_each(|at| prefetch::read_all_soon(self.shared.slot(at)));
        for _ in 0..count {
            let later = self.head + ahead::<T>();
            if later < end {
                prefetch::read_all_soon(self.shared.slot(later));
            }
            let room = &mut out.spare_capacity_mut()[0];
            // SAFETY: the slot's count is in `head..tail`, so it holds an item (acquire in `available`). The item is
            // moved out before `head` passes the slot and the producer may reach it. `room` is elsewhere.
            self.shared.slot(self.head).with_mut(|slot| unsafe { std::ptr::copy_nonoverlapping(slot, room, 1) });
            // SAFETY: there was room for one more, and it is written.
            unsafe { out.set_len(out.len() + 1) };
            self.head += 1;
        }
        if count > 0 {
            // Release: we are done with the slots below this count.
            self.shared.head.0.store(self.head, Ordering::Release);
        }
        count
    }

    /// Number of items taken since the ring was made.
    pub fn popped(&self) -> u64 {
        self.head
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn items_come_out_in_order_and_a_full_ring_takes_none() {
        let (mut producer, mut consumer) = ring(3).expect("a few slots");
        let mut out = Vec::new();
        for round in 0..10 {
            for i in 0..4 {
                assert_eq!(producer.push(10 * round + i), Ok(()), "three are rounded up to four");
            }
            assert_eq!(producer.push(99), Err(99));
            assert_eq!(consumer.pop_into(&mut out, 10), 0, "not published");
            assert!(producer.publish() && !producer.publish());
            assert_eq!((consumer.available(), producer.depth(), producer.is_half_full()), (4, 4, true));
            assert_eq!((consumer.pop_into(&mut out, 3), consumer.pop_into(&mut out, 3)), (3, 1));
            assert_eq!((producer.depth(), producer.is_half_full()), (0, false));
        }
        assert!(out.iter().copied().eq((0..10).flat_map(|round| (0..4).map(move |i| 10 * round + i))));
        assert_eq!((producer.pushed(), consumer.popped()), (40, 40));
        drop(consumer);
        assert!(producer.is_abandoned());
    }

    #[test]
    fn what_is_left_in_it_is_dropped_once() {
        let item = Arc::new(());
        let (mut producer, mut consumer) = ring(8).expect("a few slots");
        for _ in 0..5 {
            producer.push(Arc::clone(&item)).expect("there is room");
        }
        drop(producer);
        let mut out = Vec::new();
        assert_eq!(consumer.pop_into(&mut out, 2), 2, "published by the drop");
        drop(consumer);
        assert_eq!(Arc::strong_count(&item), 3);
    }

    #[test]
    fn threads_pass_items_in_order() {
        const ITEMS: u64 = 100_000;
        let (mut producer, mut consumer) = ring(64).expect("a few slots");
        let pushing = std::thread::spawn(move || {
            for mut item in 0..ITEMS {
                while let Err(back) = producer.push(item) {
                    item = back;
                    producer.publish();
                    std::thread::yield_now();
                }
                if item % 7 == 0 {
                    producer.publish();
                }
            }
        });
        let (mut out, mut next) = (Vec::new(), 0);
        while next < ITEMS {
            if consumer.pop_into(&mut out, 48) == 0 {
                std::thread::yield_now();
            }
            for item in out.drain(..) {
                assert_eq!(item, next);
                next += 1;
            }
        }
        pushing.join().expect("the producer does not panic");
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::asleep::Asleep;

    /// Loom's cells report a slot that both sides reach at once. Loom's count of allocations reports an item that is
    /// lost or dropped twice.
    #[test]
    fn items_pass_whole_and_in_order() {
        loom::model(|| {
            let (mut producer, mut consumer) = ring(2).expect("a few slots");
            let pushing = loom::thread::spawn(move || {
                let mut taken = 0;
                for item in 0..3 {
                    taken += u64::from(producer.push(Box::new(item)).is_ok());
                    producer.publish();
                }
                taken
            });
            let mut out = Vec::new();
            for _ in 0..3 {
                consumer.pop_into(&mut out, 2);
            }
            let taken = pushing.join().expect("the producer does not panic");
            while consumer.pop_into(&mut out, 2) > 0 {}
            assert_eq!(out.len() as u64, taken);
            assert!(out.is_sorted() && out.first().is_none_or(|first| **first == 0));
        });
    }

    /// The consumer sleeps when the ring is empty. If it slept while the ring has items, that would be a deadlock, which
    /// loom reports.
    #[test]
    fn a_consumer_that_sleeps_is_woken() {
        const ITEMS: usize = 2;
        loom::model(|| {
            let (mut producer, mut consumer) = ring(2).expect("a few slots");
            let asleep = Arc::new(Asleep::default());
            let consuming = loom::thread::spawn({
                let asleep = Arc::clone(&asleep);
                move || {
                    let mut out = Vec::new();
                    while out.len() < ITEMS {
                        if consumer.pop_into(&mut out, ITEMS) > 0 {
                            continue;
                        }
                        asleep.fall_asleep();
                        if consumer.available() == 0 {
                            loom::thread::park();
                        }
                        asleep.awake();
                    }
                    out
                }
            });
            for item in 0..ITEMS {
                producer.push(item).expect("there is room");
                producer.publish();
                if asleep.must_wake() {
                    consuming.thread().unpark();
                }
            }
            assert_eq!(consuming.join().expect("the consumer does not panic"), [0, 1]);
        });
    }
}
