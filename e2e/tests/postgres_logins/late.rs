//! A change that comes too late does no harm (C5).

use leasehold_e2e::error::Result;
use leasehold_operator::backend::{BackendError, Removal, Slot, fingerprint};
use secrecy::ExposeSecret as _;

use crate::ground::{Ground, code, error, ours, pair, remove};

#[tokio::test]
async fn an_operator_that_stood_still_for_two_rotations_changes_nothing() -> Result<()> {
    let ground = Ground::start().await?;
    let (late, operator) = (ground.operator(), ground.operator());
    let (subject, first) = ground.service(&operator, "billing").await?;
    let (second, third) = (pair(), pair());
    operator.set_login(&subject, 2, &second.verifier).await?;
    operator.end_generation(&subject, 1).await?;
    operator.set_login(&subject, 3, &third.verifier).await?;

    let newer = error(late.set_login(&subject, 1, &first.verifier).await);
    assert!(
        matches!(
            newer,
            BackendError::Newer {
                found: 3,
                ours: 1,
                ..
            }
        ),
        "{newer}"
    );
    let newer = error(late.end_generation(&subject, 1).await);
    assert!(
        matches!(
            newer,
            BackendError::Newer {
                found: 3,
                ours: 1,
                ..
            }
        ),
        "{newer}"
    );
    operator.verify(&subject, Slot::A, &third.password).await?;
    assert_eq!(ours(&operator.look(&subject).await?.logins[0]).0, 3);
    Ok(())
}

#[tokio::test]
async fn without_the_generation_in_the_comment_the_late_change_locks_the_service_out() -> Result<()>
{
    let ground = Ground::start().await?;
    let (late, operator) = (ground.operator(), ground.operator());
    let (subject, first) = ground.service(&operator, "billing").await?;
    let third = pair();
    operator.set_login(&subject, 3, &third.verifier).await?;
    // The control: somebody takes away what the check reads.
    let login = subject.names.login(Slot::A);
    let former = fingerprint(first.verifier.0.expose_secret());
    let mark = subject.names.login_mark();
    let mark = format!("{mark} generation=1 fingerprint={former}");
    ground
        .by_superuser(&format!("COMMENT ON ROLE \"{login}\" IS '{mark}'"))
        .await?;
    late.set_login(&subject, 1, &first.verifier).await?;
    assert_eq!(
        code(ground.client(&subject, Slot::A, &third).await),
        "28P01"
    );
    Ok(())
}

#[tokio::test]
async fn a_removal_that_comes_too_late_takes_nothing_from_a_service_that_is_new() -> Result<()> {
    let ground = Ground::start().await?;
    let (late, operator) = (ground.operator(), ground.operator());
    let (subject, _first) = ground.service(&operator, "billing").await?;
    let seen = late.sight(&subject).await?;
    assert_eq!(remove(&operator, &subject, true).await?, Removal::Done);
    // Nothing is there, so nothing is done.
    assert_eq!(late.remove(&subject, true, &seen).await?, Removal::Done);

    operator.provision(&subject).await?;
    let refused = error(late.remove(&subject, true, &seen).await);
    assert!(matches!(refused, BackendError::Anew { .. }), "{refused}");
    let (subject, second) = ground.service(&operator, "billing").await?;
    let refused = error(late.remove(&subject, true, &seen).await);
    assert!(matches!(refused, BackendError::Anew { .. }), "{refused}");
    operator.verify(&subject, Slot::A, &second.password).await?;
    assert!(ours(&operator.look(&subject).await?.logins[0]).1);

    // The control: what is seen now may be removed, by the same call.
    let seen = late.sight(&subject).await?;
    assert_eq!(late.remove(&subject, true, &seen).await?, Removal::Done);
    assert_eq!(
        code(ground.client(&subject, Slot::A, &second).await),
        "28P01"
    );
    Ok(())
}

#[tokio::test]
async fn a_second_password_of_the_same_generation_is_refused() -> Result<()> {
    let ground = Ground::start().await?;
    let operator = ground.operator();
    let (subject, first) = ground.service(&operator, "billing").await?;
    let refused = error(operator.set_login(&subject, 1, &pair().verifier).await);
    let is_refused = matches!(
        refused,
        BackendError::Newer {
            found: 1,
            ours: 1,
            ..
        }
    );
    assert!(is_refused, "{refused}");
    operator.set_login(&subject, 1, &first.verifier).await?;
    operator.verify(&subject, Slot::A, &first.password).await?;
    Ok(())
}

#[tokio::test]
async fn two_operators_at_once_leave_one_login_of_the_newest_generation() -> Result<()> {
    let ground = Ground::start().await?;
    let (one, other) = (ground.operator(), ground.operator());
    let (subject, _first) = ground.service(&one, "billing").await?;
    for round in 1..=5_u64 {
        let (older, newer) = (pair(), pair());
        let generation = 1 + 4 * round;
        let (a, b) = tokio::join!(
            one.set_login(&subject, generation - 2, &older.verifier),
            other.set_login(&subject, generation, &newer.verifier),
        );
        b?;
        assert!(
            matches!(a, Ok(()) | Err(BackendError::Newer { .. })),
            "{a:?}"
        );
        one.verify(&subject, Slot::A, &newer.password).await?;
    }
    Ok(())
}
