//! The queue of events in true time; what is due at the same instant happens in the order of asking.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::clock::Nanos;

struct Scheduled<E> {
    at: Nanos,
    number: u64,
    event: E,
}

/// Events, earliest first.
pub struct Queue<E> {
    heap: BinaryHeap<Scheduled<E>>,
    number: u64,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            number: 0,
        }
    }
}

impl<E> Queue<E> {
    pub fn push(&mut self, at: Nanos, event: E) {
        self.number += 1;
        self.heap.push(Scheduled {
            at,
            number: self.number,
            event,
        });
    }

    pub fn pop(&mut self) -> Option<(Nanos, E)> {
        self.heap.pop().map(|next| (next.at, next.event))
    }
}

impl<E> Ord for Scheduled<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<E> PartialOrd for Scheduled<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Scheduled<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Scheduled<E> {}
