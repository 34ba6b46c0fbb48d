//! Prints a report as text: one table per question.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::budgets::{BudgetResult, Mark, where_cpu_went};
use super::report::{
    Ceiling, Latency, OPERATOR, Phase, Report, Run, Seconds, Setting, Step, median, number,
};
use crate::table::align;

/// Times are unreliable when other processes used more of the machine than this.
const MAX_SHARE_OF_OTHERS: f64 = 0.15;
const NONE: &str = "–";

/// The whole report; the budgets come last.
pub(crate) fn text(report: &Report) -> String {
    let mut text = setting(&report.setting);
    for run in &report.runs {
        section(&mut text, &run.title(), &phases(run, report.ceiling.as_ref()));
        if let Some(phase) = run.phase(Step::Create) {
            section(&mut text, &format!("Writes in the step {}", phase.name), &writes(phase));
            section(&mut text, "", &where_cpu_went(phase));
        }
    }
    if !report.growth.is_empty() {
        section(&mut text, "Growth", &growth(&report.growth));
    }
    if let Some(latency) = &report.latency {
        section(&mut text, "Single sets", &single_sets(latency));
    }
    if let Some(ceiling) = &report.ceiling {
        section(&mut text, "Ceiling of the API server", &rates(ceiling));
    }
    if !report.floors.is_empty() {
        section(&mut text, "Floor of the teardown, shape a", &floors(report));
    }
    section(&mut text, "Budgets", &results("BUDGET", &report.budgets));
    section(&mut text, "Reference", &results("THEIRS AND GOAL", &report.reference));
    section(&mut text, "", &doubts(report));
    text
}

fn section(text: &mut String, title: &str, body: &str) {
    if !body.is_empty() {
        let title = if title.is_empty() { String::new() } else { format!("{title}\n") };
        let _ = writeln!(text, "\n{title}{body}");
    }
}

fn setting(setting: &Setting) -> String {
    let Setting { kubernetes, cores, nodes, profile, authorizer, .. } = setting;
    let authorizer = if *authorizer { "on" } else { "off" };
    format!(
        "Kubernetes {kubernetes} with {nodes} simulated nodes on {cores} cores; operator built for \
         {profile}, authorizer {authorizer}\n"
    )
}

// === runs ===

fn phases(run: &Run, ceiling: Option<&Ceiling>) -> String {
    let heading = [
        "STEP",
        "FIRST GANG",
        "CREATED",
        "UNGATED",
        "READY",
        "PODS GONE",
        "ALL GONE",
        "WRITES/POD",
        "BY ALL",
        "CPU/POD",
        "PEAK",
        "STEADY",
        "OF CEILING",
        "OTHERS",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    rows.extend(run.phases.iter().map(|phase| {
        let seconds = &phase.seconds;
        let still = matches!(phase.step, Step::IdleEmpty | Step::IdleFull | Step::NoOp);
        let moved = |text: String| if still { NONE.to_owned() } else { text };
        [
            phase.name.clone(),
            time(seconds.first_gang_ready),
            time(seconds.created),
            time(seconds.gates_lifted),
            time(seconds.ready),
            time(seconds.pods_gone),
            time(seconds.all_gone),
            moved(format!("{:.2}", phase.operator_writes_per_pod())),
            moved(format!("{:.2}", phase.all_writes_per_pod())),
            moved(format!("{:.2} ms", phase.operator_cpu_per_pod())),
            format!("{:.1} MiB", phase.peak_mib()),
            format!("{:.1} MiB", phase.steady_mib()),
            ceiling
                .and_then(|ceiling| share(phase, ceiling))
                .map_or_else(|| NONE.to_owned(), percent),
            percent(phase.machine_ms.share_of_others()),
        ]
    }));
    align(&rows)
}

/// Writes of all clients per second until the last pod is ready or deleted, relative to the ceiling.
fn share(phase: &Phase, ceiling: &Ceiling) -> Option<f64> {
    let seconds = phase.seconds.ready.or(phase.seconds.all_gone)?;
    let writes = f64::from(phase.writes.accepted(|_| true));
    Some(writes / seconds.max(0.001) / ceiling.per_second.writes)
}

fn time(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| NONE.to_owned(), |seconds| format!("{seconds:.2} s"))
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// By user and resource, and the sum of each user. Sums exclude leases, which are written periodically.
fn writes(phase: &Phase) -> String {
    let mut sums: BTreeMap<&str, u32> = BTreeMap::new();
    for (kind, count) in phase.writes.iter() {
        let lease = kind.resource == "leases";
        *sums.entry(&kind.user).or_default() += if lease { 0 } else { count.accepted };
    }
    let heading = ["USER", "RESOURCE", "VERB", "ACCEPTED", "REFUSED", "PER POD"];
    let mut rows = vec![heading.map(str::to_owned)];
    let per_pod = |count: u32| format!("{:.3}", f64::from(count) / f64::from(phase.pods.max(1)));
    for (user, sum) in sums {
        rows.extend(phase.writes.iter().filter(|(kind, _)| kind.user == user).map(
            |(kind, count)| {
                [
                    user.to_owned(),
                    kind.resource.clone(),
                    kind.verb.clone(),
                    count.accepted.to_string(),
                    count.refused.to_string(),
                    per_pod(count.accepted),
                ]
            },
        ));
        let all = "all".to_owned();
        let sum =
            [user.to_owned(), all, String::new(), sum.to_string(), String::new(), per_pod(sum)];
        rows.push(sum);
    }
    align(&rows)
}

// === other parts ===

fn growth(runs: &[Run]) -> String {
    let heading = [
        "REPLICAS",
        "PODS",
        "CREATED",
        "READY",
        "ALL GONE",
        "WRITES/POD",
        "CPU/POD",
        "PEAK",
        "STEADY",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    for run in runs {
        let Some(phase) = run.phase(Step::Create) else { continue };
        let created = |figure: fn(&Phase) -> Option<f64>| run.mean(Step::Create, figure);
        let writes = created(|phase| Some(phase.operator_writes_per_pod())).unwrap_or_default();
        let cpu = created(|phase| Some(phase.operator_cpu_per_pod())).unwrap_or_default();
        rows.push([
            run.replicas.to_string(),
            run.pods().to_string(),
            time(created(|phase| phase.seconds.created)),
            time(created(|phase| phase.seconds.ready)),
            time(run.mean(Step::Delete, |phase| phase.seconds.all_gone)),
            format!("{writes:.2}"),
            format!("{cpu:.2} ms"),
            format!("{:.1} MiB", phase.peak_mib()),
            format!("{:.1} MiB", phase.steady_mib()),
        ]);
    }
    align(&rows)
}

fn single_sets(latency: &Latency) -> String {
    let heading = ["FROM CREATING THE SET TO", "MEDIAN", "FASTEST", "SLOWEST"];
    let row = |what: String, values: &[f64]| {
        let text =
            |value: Option<f64>| value.map_or_else(|| NONE.to_owned(), |ms| format!("{ms:.0} ms"));
        let least = values.iter().copied().min_by(f64::total_cmp);
        let most = values.iter().copied().max_by(f64::total_cmp);
        [what, text(median(values)), text(least), text(most)]
    };
    align(&[
        heading.map(str::to_owned),
        row(format!("the last of {} gates lifted", latency.pods), &latency.gates_lifted_ms),
        row(format!("the last of {} pods Ready", latency.pods), &latency.ready_ms),
    ])
}

fn rates(ceiling: &Ceiling) -> String {
    let heading = [
        "PODS",
        "CREATED",
        "BOUND",
        "DELETED",
        "WRITES",
        "API SERVER CPU/WRITE",
        "OPERATOR",
        "OTHERS",
    ];
    let rate = |rate: f64| format!("{rate:.0}/s");
    let server = number(ceiling.machine_ms.of("kube-apiserver"));
    let rates = &ceiling.per_second;
    align(&[
        heading.map(str::to_owned),
        [
            ceiling.pods.to_string(),
            rate(rates.created),
            rate(rates.bound),
            rate(rates.deleted),
            rate(rates.writes),
            // Each pod is written three times.
            format!("{:.2} ms", server / f64::from(3 * ceiling.pods)),
            format!("{} ms", ceiling.machine_ms.of(OPERATOR)),
            percent(ceiling.machine_ms.share_of_others()),
        ],
    ])
}

/// The operator compared with clients that do nothing else.
fn floors(report: &Report) -> String {
    let heading = ["CLIENT LIMITS", "REPLICAS", "CLIENTS", "OPERATOR", "RATIO"];
    let mut rows = vec![heading.map(str::to_owned)];
    rows.extend(report.floors.iter().map(|floor| {
        let ours = report.runs.iter().find(|run| report.floor(run) == Some(floor));
        let ours = ours.and_then(|run| run.phase(Step::Delete)?.seconds.all_gone);
        let ratio = ours.map(|ours| format!("{:.2} ×", ours / floor.seconds));
        [
            floor.limits.word().to_owned(),
            floor.replicas.to_string(),
            time(Some(floor.seconds)),
            time(ours),
            ratio.unwrap_or_else(|| NONE.to_owned()),
        ]
    }));
    align(&rows)
}

fn results(limit: &str, results: &[BudgetResult]) -> String {
    let mut rows = vec![["", "WHAT", limit, "MEASURED", "WHY"].map(str::to_owned)];
    rows.extend(results.iter().map(|result| {
        let mark = match result.mark {
            Mark::Met => "ok",
            Mark::Partly => "partly",
            Mark::Missed => "MISSED",
            Mark::NotMeasured => NONE,
        };
        [
            mark.to_owned(),
            result.what.clone(),
            result.budget.clone(),
            result.figure.clone().unwrap_or_else(|| "not measured".to_owned()),
            result.why.clone(),
        ]
    }));
    align(&rows)
}

/// Steps whose times are unreliable, one line per run.
fn doubts(report: &Report) -> String {
    let line = |run: &Run| {
        let timed = run.phases.iter().filter(|phase| phase.seconds != Seconds::default());
        let doubtful: Vec<String> = timed
            .filter(|phase| phase.machine_ms.share_of_others() > MAX_SHARE_OF_OTHERS)
            .map(|phase| {
                format!("{} ({})", phase.name, percent(phase.machine_ms.share_of_others()))
            })
            .collect();
        (!doubtful.is_empty()).then(|| format!("  {}: {}", run.title(), doubtful.join(", ")))
    };
    let lines: Vec<String> = report.runs.iter().chain(&report.growth).filter_map(line).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!(
        "Do not trust these times: other processes used too much of the machine.\n{}",
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::super::budgets;
    use super::super::ceiling::Rates;
    use super::super::report::testkit::{phase, run};
    use super::super::report::{Floor, Limits};
    use super::super::usage::Cpu;
    use super::*;

    fn report() -> Report {
        let mut create = phase(Step::Create, 5000, 1000);
        create.seconds = Seconds { created: Some(10.0), ready: Some(20.0), ..Seconds::default() };
        let mut delete = phase(Step::Delete, 0, 0);
        delete.name = "500 → deleted".to_owned();
        delete.seconds.all_gone = Some(5.0);
        delete.machine_ms.others = 10_000;
        let mut idle = phase(Step::IdleFull, 0, 0);
        idle.machine_ms.others = 10_000;
        let per_second = Rates { created: 1.0, bound: 1.0, deleted: 1.0, writes: 1000.0 };
        let mut report = Report {
            runs: vec![run(Limits::Raised, vec![create, delete, idle])],
            floors: vec![Floor { limits: Limits::Raised, replicas: 500, seconds: 4.0 }],
            ceiling: Some(Ceiling { pods: 2000, per_second, machine_ms: Cpu::default() }),
            ..Report::default()
        };
        report.budgets = budgets::budgets(&report);
        report.reference = budgets::reference(&report);
        report
    }

    /// The cells of the line that begins with `start`.
    fn cells(text: &str, start: &str) -> Vec<String> {
        let line = text.lines().find(|line| line.starts_with(start)).unwrap();
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn a_step_is_one_line_with_its_share_of_the_ceiling() {
        let text = text(&report());
        let expected = [
            "0 → 500",
            "–",
            "10.00 s",
            "–",
            "20.00 s",
            "–",
            "–",
            "5.00",
            "5.00",
            "1.00 ms",
            "20.0 MiB",
            "19.0 MiB",
            "25 %",
            "0 %",
        ];
        assert_eq!(cells(&text, "0 → 500"), expected);
    }

    #[test]
    fn a_teardown_is_compared_with_its_floor() {
        let mut report = report();
        assert_eq!(
            cells(&text(&report), "raised"),
            ["raised", "500", "4.00 s", "5.00 s", "1.25 ×"]
        );
        report.runs[0].limits = Limits::Default;
        assert_eq!(cells(&text(&report), "raised"), ["raised", "500", "4.00 s", NONE, NONE]);
        report.floors[0].limits = Limits::Default;
        let delete = &mut report.runs[0].phases[1].seconds;
        (delete.pods_gone, delete.all_gone) = (Some(11.0), Some(12.0));
        let results = budgets::budgets(&report);
        let deleted = results.iter().find(|one| one.what.starts_with("deleted")).unwrap();
        let floor = "12.0 s, clients that only delete the same take 4.0 s;";
        assert!(deleted.why.starts_with(floor), "{}", deleted.why);
    }

    #[test]
    fn a_missed_budget_is_marked_and_explained() {
        let text = text(&report());
        let partly = text.lines().find(|line| line.contains("1,000 pods created")).unwrap();
        assert!(partly.starts_with("partly") && partly.contains("machine: idle"), "{partly}");
        let sandbox = text.lines().find(|line| line.contains("sandbox start")).unwrap();
        assert!(sandbox.starts_with(NONE) && sandbox.ends_with("not measured"), "{sandbox}");
    }

    #[test]
    fn a_busy_machine_is_reported_with_the_affected_steps() {
        let doubts = doubts(&report());
        assert!(doubts.starts_with("Do not trust"), "{doubts}");
        assert!(doubts.ends_with("client limits raised: 500 → deleted (50 %)"), "{doubts}");
        assert_eq!(super::doubts(&Report::default()), "");
    }

    #[test]
    fn writes_are_summed_by_user() {
        let table = writes(&report().runs[0].phases[0]);
        let rows = ["grove-operator  pods", "grove-operator  all"];
        for (row, line) in rows.iter().zip(table.lines().skip(1)) {
            assert!(line.starts_with(row) && line.ends_with("5.000"), "{table}");
        }
    }
}
