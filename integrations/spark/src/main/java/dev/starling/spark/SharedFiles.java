package dev.starling.spark;

import java.io.IOException;
import org.apache.hadoop.fs.ChecksumFileSystem;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.UnsupportedFileSystemException;

/** How files of a Hadoop file system get their names once they are complete. */
final class SharedFiles {
    private SharedFiles() { }

    /** Gives a draft its name, which no file has. */
    static void rename(FileSystem files, Path draft, Path target) throws IOException {
        if (!files.rename(draft, target)) {
            throw new IOException("cannot rename " + draft + " to " + target);
        }
    }

    /** Replaces a file by a draft, in one step if the file system can: otherwise it is missing for a moment. */
    static void replace(FileSystem files, Path draft, Path target) throws IOException {
        if (files instanceof ChecksumFileSystem sums) {
            // The checksum of the old file would make the new one unreadable until its own is renamed too.
            sums.getRawFileSystem().delete(sums.getChecksumFile(target), false);
        }
        try {
            FileContext.getFileContext(files.getUri(), files.getConf()).rename(files.makeQualified(draft),
                    files.makeQualified(target), Options.Rename.OVERWRITE);
        } catch (UnsupportedFileSystemException e) {
            files.delete(target, false);
            rename(files, draft, target);
        }
    }
}
