//! Reads files that others still append to: each call gives what is new.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::error::{Result, Step};

/// How far a file of JSON lines was read.
#[derive(Clone, Debug)]
pub struct Follower {
    path: PathBuf,
    offset: u64,
}

impl Follower {
    /// From the beginning of a file, which need not be there yet.
    pub fn of(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            offset: 0,
        }
    }

    /// The whole lines since the last call.
    pub fn read<T: DeserializeOwned>(&mut self) -> Result<Vec<T>> {
        let reading = || format!("reading {} from {} on", self.path.display(), self.offset);
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).step(reading),
        };
        file.seek(SeekFrom::Start(self.offset)).step(reading)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).step(reading)?;
        let whole = text
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |end| end + 1);
        let lines = text[..whole]
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty());
        let read = lines
            .map(|line| {
                serde_json::from_slice(line).step(|| String::from_utf8_lossy(line).into_owned())
            })
            .collect::<Result<Vec<T>>>()
            .step(reading)?;
        self.offset += u64::try_from(whole)?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::Follower;
    use std::io::Write as _;

    #[test]
    fn each_whole_line_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let mut follower = Follower::of(&path);
        assert!(follower.read::<u32>().unwrap().is_empty());
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(b"1\n2\n3").unwrap();
        assert_eq!(follower.read::<u32>().unwrap(), [1, 2]);
        file.write_all(b"4\n").unwrap();
        assert_eq!(follower.read::<u32>().unwrap(), [34]);
        assert!(follower.read::<u32>().unwrap().is_empty());
    }
}
