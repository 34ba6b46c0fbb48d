//! Minimum first: with a scheduler that counts the pods of a gang, pods above the minima are created when the
//! minima of the whole gang are scheduled, and not before. They could take the room that a minimum needs.

use super::GangPods;

/// Whether only the minimum of each member is created for now.
pub fn creates_minimum_first(minimum_first: bool, pods: GangPods) -> bool {
    minimum_first && !pods.scheduled
}

/// How many pods of a member exist when its gang is initialized.
pub fn initial_pods(replicas: u32, minimum: i32, minimum_first: bool) -> u32 {
    let minimum = u32::try_from(minimum).unwrap_or_default();
    if minimum_first { replicas.min(minimum) } else { replicas }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_above_the_minimum_are_created_when_the_whole_gang_is_scheduled() {
        let unscheduled = GangPods::default();
        let scheduled = GangPods { scheduled: true, ..unscheduled };
        assert!(creates_minimum_first(true, unscheduled));
        assert!(!creates_minimum_first(true, scheduled));
        assert!(!creates_minimum_first(false, unscheduled));
    }

    #[test]
    fn a_gang_is_initialized_with_its_minima_or_with_all_pods() {
        for (replicas, minimum, minimum_first, expected) in
            [(3, 2, true, 2), (3, 2, false, 3), (1, 2, true, 1), (3, 0, true, 0)]
        {
            assert_eq!(initial_pods(replicas, minimum, minimum_first), expected);
        }
    }
}
