//! Many services at the same time.

use std::sync::Arc;

use futures::future::try_join_all;
use leasehold_e2e::error::Result;
use leasehold_operator::backend::{SharedState, Slot};

use crate::ground::{Ground, ours, pair, subject};

const SERVICES: usize = 20;
/// Another number of them, to measure with.
const SERVICES_ENV: &str = "LEASEHOLD_TEST_SERVICES";

/// Two operators, as at a handover that went wrong: concurrent changes meet on the server.
#[tokio::test]
async fn many_services_are_made_at_once_and_rotated_at_once() -> Result<()> {
    let ground = Ground::start().await?;
    let count = std::env::var(SERVICES_ENV).map_or(Ok(SERVICES), |text| text.parse())?;
    let operators = [Arc::new(ground.operator()), Arc::new(ground.operator())];
    let started = std::time::Instant::now();
    let services = (0..count).map(|index| {
        let operator = &operators[index % 2];
        let ground = &ground;
        async move {
            let subject = subject(&format!("service-{index}"));
            ground.settle(operator, &subject).await?;
            let second = pair();
            operator.set_login(&subject, 2, &second.verifier).await?;
            operator.verify(&subject, Slot::B, &second.password).await?;
            operator.end_generation(&subject, 1).await?;
            leasehold_e2e::error::Result::<_>::Ok((subject, second))
        }
    });
    let services = try_join_all(services).await?;
    println!(
        "{count} services made and rotated in {:?}",
        started.elapsed()
    );
    let asked = std::time::Instant::now();
    let survey = operators[0].survey().await?;
    println!("one survey of all in {:?}", asked.elapsed());
    assert_eq!(survey.len(), 2 * count, "an owner and a login each");
    for (subject, second) in &services {
        let state = operators[0].look(subject).await?;
        assert_eq!(state.shared, SharedState::InShape);
        assert_eq!(ours(&state.logins[1]).0, 2);
        operators[1]
            .verify(subject, Slot::B, &second.password)
            .await?;
    }
    let sessions =
        "SELECT count(*)::text FROM pg_stat_activity WHERE application_name = 'leasehold-operator'";
    let open: usize = ground.ask(sessions).await?.parse()?;
    assert!(open <= 2 * 5, "{open} connections"); // one and four logins each
    Ok(())
}
