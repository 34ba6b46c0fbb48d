//! Text tables: columns as wide as their widest cell.

/// Returns one line per row, with aligned cells two blanks apart.
pub(crate) fn align<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &[String; N]| {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned);
        let text = align(&[row(["NAME", "STATE"]), row(["a-long-name", "running"])]);
        assert_eq!(text, "NAME         STATE\na-long-name  running");
    }
}
