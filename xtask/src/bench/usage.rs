//! CPU and memory of processes and of the machine, from the kernel's counters.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use super::report::number;

/// Memory of a process, in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Memory {
    /// Maximum resident memory since [`forget_peak`].
    pub(crate) peak: u32,
    /// Resident memory.
    pub(crate) resident: u32,
    /// Pages of the program file in resident memory, which the kernel may drop.
    pub(crate) file: u32,
}

/// CPU time used so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Reading {
    processes: BTreeMap<String, Duration>,
    machine: Machine,
}

/// CPU time of all cores together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Machine {
    busy: Duration,
    total: Duration,
}

/// CPU time used between two readings, in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Cpu {
    /// By process.
    pub(crate) processes: BTreeMap<String, u64>,
    /// CPU time of the kernel and of processes outside the benchmark.
    pub(crate) others: u64,
    /// CPU time that all cores offered.
    pub(crate) capacity: u64,
}

impl Cpu {
    /// Used by one process.
    pub(crate) fn of(&self, process: &str) -> u64 {
        self.processes.get(process).copied().unwrap_or_default()
    }

    /// Share of the machine that other processes used, from 0 to 1.
    pub(crate) fn share_of_others(&self) -> f64 {
        number(self.others) / number(self.capacity.max(1))
    }
}

impl Reading {
    /// Reads the counters of the machine and of these processes.
    pub(crate) fn take(pids: &BTreeMap<String, u32>) -> Result<Self> {
        let read = |path: &str| fs::read_to_string(path).with_context(|| format!("no {path}"));
        let mut processes = BTreeMap::new();
        for (name, pid) in pids {
            let path = format!("/proc/{pid}/stat");
            let used = parse_process(&read(&path)?).with_context(|| format!("unknown {path}"))?;
            processes.insert(name.clone(), used);
        }
        let machine = parse_machine(&read("/proc/stat")?).context("unknown /proc/stat")?;
        Ok(Self { processes, machine })
    }

    /// CPU time since `before`.
    pub(crate) fn since(&self, before: &Self) -> Cpu {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let used = |name: &str| before.processes.get(name).copied().unwrap_or_default();
        let processes: BTreeMap<String, u64> = self
            .processes
            .iter()
            .map(|(name, now)| (name.clone(), millis(now.saturating_sub(used(name)))))
            .collect();
        let busy = millis(self.machine.busy.saturating_sub(before.machine.busy));
        Cpu {
            others: busy.saturating_sub(processes.values().sum()),
            capacity: millis(self.machine.total.saturating_sub(before.machine.total)),
            processes,
        }
    }
}

/// Memory of a process.
pub(crate) fn memory(pid: u32) -> Result<Memory> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("no {path}"))?;
    parse_memory(&text).with_context(|| format!("unknown {path}"))
}

/// Resets the peak of a process to its resident memory.
pub(crate) fn forget_peak(pid: u32) -> Result<()> {
    let path = format!("/proc/{pid}/clear_refs");
    fs::write(&path, "5").with_context(|| format!("cannot write {path}"))
}

/// The program name in the second field may contain anything, so fields count from its last bracket.
fn parse_process(stat: &str) -> Option<Duration> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(ticks(user + system))
}

/// Stolen time counts as busy: no process here could use it.
fn parse_machine(stat: &str) -> Option<Machine> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> =
        line.split_whitespace().map(|field| field.parse().ok()).collect::<Option<_>>()?;
    // User, nice, system, idle, waiting, interrupts, soft interrupts, stolen; guests are in user.
    let total: u64 = fields.get(..8)?.iter().sum();
    let idle = fields.get(3)? + fields.get(4)?;
    Some(Machine { busy: ticks(total - idle), total: ticks(total) })
}

fn parse_memory(status: &str) -> Option<Memory> {
    let kib = |key: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(key))?;
        value.trim().strip_suffix(" kB")?.parse().ok()
    };
    Some(Memory { peak: kib("VmHWM:")?, resident: kib("VmRSS:")?, file: kib("RssFile:")? })
}

fn ticks(count: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_millis(count.saturating_mul(1000) / per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_program_name() {
        let stat = "42 (a b) c) S 1 2 3 4 5 6 7 8 9 10 30 12 99 98";
        assert_eq!(parse_process(stat), Some(ticks(42)));
        assert_eq!(parse_process("42 (a) S 1"), None);
    }

    #[test]
    fn waiting_is_idle_and_stolen_is_busy() {
        let stat = "cpu  100 0 50 800 40 1 2 7 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        let machine = parse_machine(stat).unwrap();
        assert_eq!(machine, Machine { busy: ticks(160), total: ticks(1000) });
    }

    #[test]
    fn memory_is_read_by_key() {
        let status = "Name:\tgrove\nVmHWM:\t   25000 kB\nVmRSS:\t   20000 kB\nRssFile:\t 9000 kB\n";
        let memory = Memory { peak: 25000, resident: 20000, file: 9000 };
        assert_eq!(parse_memory(status), Some(memory));
        assert_eq!(parse_memory("Name: x"), None);
    }

    #[test]
    fn cpu_time_outside_our_processes_belongs_to_others() {
        let reading = |own: u64, busy: u64, total: u64| Reading {
            processes: [("etcd".to_owned(), Duration::from_millis(own))].into(),
            machine: Machine {
                busy: Duration::from_millis(busy),
                total: Duration::from_millis(total),
            },
        };

        let cpu = reading(150, 700, 2000).since(&reading(100, 500, 1000));

        assert_eq!((cpu.of("etcd"), cpu.of("unknown")), (50, 0));
        assert_eq!((cpu.others, cpu.capacity), (150, 1000));
        assert!((cpu.share_of_others() - 0.15).abs() < 1e-9);
    }

    #[test]
    fn this_process_has_cpu_time_and_memory() {
        let pid = std::process::id();
        let pids = [("test".to_owned(), pid)].into();
        let before = Reading::take(&pids).unwrap();
        assert_eq!(Reading::take(&pids).unwrap().since(&before).processes.len(), 1);
        forget_peak(pid).unwrap();
        let memory = memory(pid).unwrap();
        assert!(memory.resident > 0 && memory.peak >= memory.file);
    }
}
