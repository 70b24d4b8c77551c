//! The stories that every store must end in the same way.

use leasehold::fence::FenceError;
use leasehold::{Claim, HashId, KeyRange, Layout, Partition};

use crate::store::Store;

/// A claim; the token is the number of the revision, or `<era>.<revision>`.
pub(crate) fn claim(from: u64, until: u64, token: &str) -> Claim {
    let range = KeyRange::new(from << 32, u128::from(until) << 32).unwrap();
    let token = if token.contains('.') {
        token.to_owned()
    } else {
        format!("0.{token}")
    };
    Claim::new(range, token.parse().unwrap())
}

/// The claims of the first partitions of a layout, in which each has a token of its own.
pub(crate) fn owners(count: u16, first: u64, partitions: u16) -> Vec<Claim> {
    let layout = Layout::new(1, HashId::CsHash1, count).unwrap();
    let owner = |number: u16| {
        let token = format!("0.{}", first + u64::from(number));
        Claim::new(layout.range(Partition::new(number)), token.parse().unwrap())
    };
    (0..partitions).map(owner).collect()
}

fn is_stale(refused: &Result<(), FenceError>) -> bool {
    matches!(refused, Err(FenceError::Stale { .. }))
}

/// Tells all of them, each with a service of its own.
pub(crate) async fn all<S: Store>(store: impl Fn(&str) -> S) {
    a_lower_token_is_refused_and_changes_nothing(store("lower")).await;
    a_write_without_a_raise_is_refused(store("without-raise")).await;
    neighbours_do_not_disturb_each_other(store("neighbours")).await;
    owners_of_former_layouts_are_shut_out(store("layouts"), true).await;
    owners_of_former_layouts_are_shut_out(store("no-middle"), false).await;
    a_sibling_with_a_lower_token_raises_again(store("siblings")).await;
    a_leader_and_an_era_outrank_partitions(store("leader")).await;
    the_fences_of_services_are_apart(store("one"), store("other")).await;
}

async fn a_lower_token_is_refused_and_changes_nothing(store: impl Store) {
    let (old, new) = (claim(0, 20, "5"), claim(10, 30, "10"));
    store.raise(old).await.unwrap();
    store.write(old, 1).await.unwrap();
    store.raise(new).await.unwrap();
    let refused = store.write(old, 2).await.unwrap_err().to_string();
    assert_eq!(
        refused,
        "fences of lower: token 0.5 for the hashes 0000000000000000..0000001400000000 is stale: \
         0.10 was raised since"
    );
    assert!(is_stale(&store.raise(old).await));
    assert!(is_stale(&store.raise(claim(29, 40, "9")).await));
    assert_eq!(store.value().await, 1);
    store.write(new, 3).await.unwrap();
    assert_eq!(store.value().await, 3);
    // What was refused raised nothing.
    store.raise(claim(30, 40, "1")).await.unwrap();
    store.raise(claim(0, 10, "6")).await.unwrap();
}

async fn a_write_without_a_raise_is_refused(store: impl Store) {
    let owner = claim(0, 20, "5");
    let refused = store.write(owner, 1).await.unwrap_err().to_string();
    assert_eq!(
        refused,
        "fences of without-raise: token 0.5 for the hashes 0000000000000000..0000001400000000 was \
         not raised before the write; so far: nothing"
    );
    store.raise(claim(0, 20, "4")).await.unwrap();
    let refused = store.write(owner, 1).await.unwrap_err().to_string();
    assert!(refused.ends_with("so far: token 0.4"), "{refused}");
    assert_eq!(store.value().await, 0);
    store.raise(owner).await.unwrap();
    store.raise(owner).await.unwrap();
    store.write(owner, 1).await.unwrap();
    assert_eq!(store.value().await, 1);
}

async fn neighbours_do_not_disturb_each_other(store: impl Store) {
    // The last one ends with the last hash.
    let last = KeyRange::new(30 << 32, 1 << 64).unwrap();
    let last = Claim::new(last, "0.1".parse().unwrap());
    let owners = [
        claim(0, 10, "7"),
        claim(20, 30, "9"),
        claim(10, 20, "3"),
        last,
    ];
    for owner in owners {
        store.raise(owner).await.unwrap();
    }
    for owner in owners {
        store.write(owner, 1).await.unwrap();
        store.raise(owner).await.unwrap();
    }
}

/// 64 → 96 → 48 partitions; the first of them stand for all.
async fn owners_of_former_layouts_are_shut_out(store: impl Store, middle_ran: bool) {
    let layouts = [owners(64, 100, 8), owners(96, 300, 12), owners(48, 500, 6)];
    let ran = if middle_ran { 2 } else { 1 };
    for owner in layouts[..ran].iter().flatten() {
        store.raise(*owner).await.unwrap();
    }
    // Backwards: no sibling has shut anyone out before.
    for child in layouts[2].iter().rev() {
        store.raise(*child).await.unwrap();
        let former = layouts[..2].iter().flatten();
        let mut shut_out = 0;
        for late in former.filter(|late| late.range.overlaps(child.range)) {
            assert!(
                is_stale(&store.write(*late, 1).await),
                "{late} beside {child}"
            );
            assert!(is_stale(&store.raise(*late).await), "{late} beside {child}");
            shut_out += 1;
        }
        assert!((4..=5).contains(&shut_out), "{shut_out} overlap {child}");
        store.write(*child, 2).await.unwrap();
    }
}

async fn a_sibling_with_a_lower_token_raises_again(store: impl Store) {
    for parent in owners(64, 100, 8) {
        store.raise(parent).await.unwrap();
    }
    let children = owners(96, 300, 12);
    for _ in 0..2 {
        for child in children.iter().rev() {
            store.raise(*child).await.unwrap();
            store.write(*child, 1).await.unwrap();
        }
    }
}

async fn a_leader_and_an_era_outrank_partitions(store: impl Store) {
    let owner = claim(10, 20, "5");
    store.raise(owner).await.unwrap();
    let token = |text: &str| Claim::new(KeyRange::ALL, text.parse().unwrap());
    assert!(is_stale(&store.raise(token("0.4")).await));
    store.raise(token("1.1")).await.unwrap();
    assert!(is_stale(&store.write(owner, 1).await));
    assert!(is_stale(
        &store.raise(claim(19, 20, "0.9223372036854775807")).await
    ));
    store.write(token("1.1"), 1).await.unwrap();
    // The longest token that there is.
    store
        .raise(token("4294967295.9223372036854775807"))
        .await
        .unwrap();
    let refused = store.write(token("1.1"), 2).await.unwrap_err().to_string();
    assert!(
        refused.contains("4294967295.9223372036854775807 was raised"),
        "{refused}"
    );
}

async fn the_fences_of_services_are_apart(one: impl Store, other: impl Store) {
    one.raise(claim(0, 20, "9")).await.unwrap();
    other.raise(claim(0, 20, "5")).await.unwrap();
    other.write(claim(0, 20, "5"), 1).await.unwrap();
    one.write(claim(0, 20, "9"), 1).await.unwrap();
}
