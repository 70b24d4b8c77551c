//! The memory store keeps the contract of `driver.rs`.

use std::sync::Arc;

use leasehold::testing::conformance::{self, Outsider};
use leasehold::testing::{Answer, Clock, LeaseKey, LeaseStore, MemoryStore};

struct Direct(Arc<MemoryStore>);

impl Outsider for Direct {
    fn annotate<'a>(&'a self, key: &'a LeaseKey, name: &'a str, value: &'a str) -> Answer<'a, ()> {
        Box::pin(async move { assert!(self.0.annotate(key, name, value)) })
    }

    fn annotation<'a>(&'a self, key: &'a LeaseKey, name: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move { self.0.annotation(key, name) })
    }

    fn delete<'a>(&'a self, key: &'a LeaseKey) -> Answer<'a, ()> {
        Box::pin(async move { assert!(self.0.edit(key, |_| None)) })
    }

    fn empty<'a>(&'a self, key: &'a LeaseKey) -> Answer<'a, ()> {
        Box::pin(async move {
            assert!(self.0.edit(key, |mut record| {
                record.holder = None;
                Some(record)
            }));
        })
    }

    fn unlabel<'a>(&'a self, key: &'a LeaseKey) -> Answer<'a, ()> {
        Box::pin(async move { assert!(self.0.unlabel(key)) })
    }

    /// A record in memory has a key and no name.
    fn foreign<'a>(&'a self, _id: &'a LeaseKey) -> Answer<'a, ()> {
        Box::pin(async {})
    }
}

#[tokio::test]
async fn the_memory_store_conforms() {
    let store = Arc::new(MemoryStore::separate(Clock::test()));
    let outsider = Arc::new(Direct(Arc::clone(&store)));
    conformance::all(store as Arc<dyn LeaseStore>, outsider, "memory").await;
}
