//! Text in columns.

use crate::terminal::visible_in_line;

/// One line per row, each column as wide as its widest cell. Lines end with their last letter.
pub(crate) fn columns<R: AsRef<[String]>>(rows: &[R]) -> String {
    let visible = |row: &R| row.as_ref().iter().map(|cell| visible_in_line(cell)).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(visible).collect();
    let number = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..number).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}
