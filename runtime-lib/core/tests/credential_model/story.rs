//! Create, rotate, rotate, delete: with crashes and hands between any two effects.

use crate::hand::Hand;
use crate::operator::{Decided, Order};
use crate::server::Guard;
use crate::world::World;

/// What happens beside the story. Effects count from 1.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disturbance {
    /// The operator ends after these effects, and another one begins.
    pub(crate) crashes: Vec<usize>,
    /// People interfere after these effects.
    pub(crate) hands: Vec<(usize, Hand)>,
    /// A client never closes its connection to the login that it began with.
    pub(crate) holds: bool,
}

/// How a story went.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) effects: usize,
    /// Instants at which the Secret's login was refused.
    pub(crate) refused: usize,
    /// Instants at which a login was alive whose password stood nowhere.
    pub(crate) nowhere: usize,
    /// Hands that found something to change.
    pub(crate) interfered: usize,
    /// Before the deletion.
    pub(crate) world: World,
    /// First thing that went wrong, if anything did.
    pub(crate) wrong: Option<String>,
}

/// Tells the whole story once.
pub(crate) fn tell(guard: Guard, order: Order, grace: Option<u64>, with: &Disturbance) -> Told {
    let mut world = World::new(guard, 1);
    world.order = order;
    if let Some(grace) = grace {
        (world.terms.grace, world.terms.max_grace) = (grace, grace);
    }
    let mut told = Told {
        effects: 0,
        refused: 0,
        nowhere: 0,
        interfered: 0,
        world: world.clone(),
        wrong: None,
    };
    for chapter in ["create", "rotate", "rotate", "delete"] {
        match chapter {
            "rotate" => world.trigger = Some(world.trigger.map_or(1, |n| n + 1)),
            "delete" => {
                told.world = world.clone();
                world.is_deleted = true;
            }
            _ => {}
        }
        told.read(&mut world, with);
        if let Err(wrong) = world.settle(0)
            && told.wrong.is_none()
        {
            told.wrong = Some(format!("{chapter}: {wrong}"));
        }
    }
    told.wrong = told.wrong.or(world.judge.broken.map(str::to_owned));
    told
}

impl Told {
    fn read(&mut self, world: &mut World, with: &Disturbance) {
        for _ in 0..120 {
            world.read(0);
            match world.look(0) {
                Decided::Settled => return,
                Decided::Wait => {
                    world.tick();
                    continue;
                }
                Decided::Effect(_) => world.act(0),
            }
            self.effects += 1;
            if !world.is_deleted {
                self.refused += usize::from(!world.works());
                self.nowhere += world.nowhere();
            }
            if with.holds
                && let Some(current) = world.secret.as_ref().and_then(|s| s.current)
            {
                world.busy(current.slot, true);
            }
            for (_, hand) in with.hands.iter().filter(|(at, _)| *at == self.effects) {
                self.interfered += usize::from(world.hand(*hand));
            }
            if with.crashes.contains(&self.effects) {
                world.crash(0);
            }
        }
    }
}
