//! A folder as the kubelet makes it of a Secret, for tests.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A Secret that is mounted as a volume, and replaced as a whole.
#[derive(Debug)]
pub struct MountedSecret {
    folder: PathBuf,
    versions: u64,
}

impl MountedSecret {
    /// Makes the folder, still without files.
    pub fn new(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        fs::create_dir_all(&folder)?;
        Ok(Self {
            folder,
            versions: 0,
        })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Replaces all files at once: they are written into a folder of their own, `..data` is renamed
    /// to point there, and the folder before is removed.
    pub fn put<'a>(
        &mut self,
        files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> io::Result<()> {
        self.versions += 1;
        let version = format!("..{}", self.versions);
        let own = self.folder.join(&version);
        fs::create_dir(&own)?;
        let mut names = Vec::new();
        for (name, content) in files {
            fs::write(own.join(name), content)?;
            names.push(name);
        }
        let (data, next) = (self.folder.join("..data"), self.folder.join("..data_tmp"));
        let before = fs::read_link(&data).ok();
        symlink(&version, &next)?;
        fs::rename(&next, &data)?;
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if !name.starts_with("..") && !names.contains(&&*name) {
                fs::remove_file(entry.path())?;
            }
        }
        for name in names {
            let link = self.folder.join(name);
            if fs::symlink_metadata(&link).is_err() {
                symlink(Path::new("..data").join(name), &link)?;
            }
        }
        before.map_or(Ok(()), |before| {
            fs::remove_dir_all(self.folder.join(before))
        })
    }
}
