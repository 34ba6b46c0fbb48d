//! Equal parts of cached objects share their memory, such as the pod template of all objects of one role.
//! Used with [`CacheBuilder::on_read`](crate::cache::CacheBuilder::on_read).

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// The values in use, each of them once.
pub struct Pool<T>(Mutex<Known<T>>);

struct Known<T> {
    values: HashSet<Arc<T>>,
    /// The number of values at which to forget those that are no longer in use.
    sweep_at: usize,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::new(Known { values: HashSet::new(), sweep_at: 0 }))
    }
}

impl<T: Eq + Hash> Pool<T> {
    /// Replaces a value by an equal one that is in use already.
    pub fn share(&self, value: &mut Arc<T>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(equal) = known.values.get(value) {
            *value = equal.clone();
            return;
        }
        if known.values.len() >= known.sweep_at {
            known.values.retain(|value| Arc::strong_count(value) > 1);
            // A sweep each time that the number has doubled costs little per value.
            known.sweep_at = 2 * known.values.len() + 16;
        }
        known.values.insert(value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_and_unused_values_are_forgotten() {
        let pool = Pool::default();
        let share = |number: u32| {
            let mut value = Arc::new(number);
            pool.share(&mut value);
            value
        };
        let kept = share(0);
        for number in 1..1000 {
            share(number);
        }
        assert!(Arc::ptr_eq(&kept, &share(0)));
        let known = pool.0.lock().unwrap().values.len();
        assert!(known < 40, "{known}");
    }
}
