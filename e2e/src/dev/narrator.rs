//! How the programs speak: chapters, sentences, commands with their output, and
//! aligned facts.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::kubectl::Kubectl;

const WIDTH: usize = 92;

/// Tells one story.
pub(super) struct Narrator {
    chapter: u32,
    indent: &'static str,
    colours: bool,
    started: Instant,
}

impl Narrator {
    /// Begins with a title.
    pub(super) fn new(title: &str) -> Self {
        let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let narrator = Self {
            chapter: 0,
            indent: "   ",
            colours,
            started: Instant::now(),
        };
        println!("{}", narrator.bold(title));
        narrator
    }

    /// Begins a chapter.
    pub(super) fn chapter(&mut self, heading: &str) {
        self.chapter += 1;
        println!("\n{}", self.bold(&format!("{}. {heading}", self.chapter)));
    }

    /// Says something, wrapped.
    pub(super) fn say(&self, text: &str) {
        for line in wrapped(text, WIDTH - self.indent.len()) {
            println!("{}{line}", self.indent);
        }
    }

    /// A fact on a line of its own: what, and how long it took.
    pub(super) fn took(&self, what: &str, time: Duration) {
        let dots = WIDTH.saturating_sub(self.indent.len() + what.chars().count() + 10);
        println!(
            "{}{what} {} {:>6.2} s",
            self.indent,
            ".".repeat(dots),
            time.as_secs_f64()
        );
    }

    /// Shows a command as a user would type it, without running it.
    pub(super) fn command(&self, command: &str) {
        println!("{}{}", self.indent, self.bold(&format!("$ {command}")));
    }

    /// Shows what a command printed.
    pub(super) fn output(&self, text: &str) {
        for line in text.lines() {
            println!("{}{}", self.indent, line.trim_end());
        }
    }

    /// Runs kubectl for real and shows both.
    pub(super) async fn kubectl(&self, kubectl: &Kubectl, arguments: &[&str]) -> Result<()> {
        self.command(&format!("kubectl {}", arguments.join(" ")));
        self.output(&kubectl.run(arguments).await?);
        Ok(())
    }

    /// How long the story has lasted.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn bold(&self, text: &str) -> String {
        if self.colours {
            format!("\x1b[1m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > width {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn long_sentences_are_wrapped_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(
            wrapped("incomprehensibilities", 7),
            ["incomprehensibilities"]
        );
    }
}
