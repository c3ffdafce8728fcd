package dev.starling.spark.search;

import dev.starling.nn.search.TrialStore;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Results of trials as files of any Hadoop file system.
 *
 * @param directory its address
 */
record SharedResults(String directory, Configuration hadoop) implements TrialStore {
    /** Writes and deletes an empty file. */
    @Override
    public void requireWritable() throws IOException {
        Path probe = new Path(directory, ".writable." + UUID.randomUUID());
        FileSystem files = probe.getFileSystem(hadoop);
        files.create(probe, true).close();
        files.delete(probe, false);
    }

    @Override
    public String read(String name) throws IOException {
        Path path = new Path(directory, name);
        try (InputStream in = path.getFileSystem(hadoop).open(path)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (FileNotFoundException | ChecksumException e) {
            return null; // missing or damaged: the trial runs again
        }
    }

    @Override
    public void write(String name, String text) throws IOException {
        Path path = new Path(directory, name);
        FileSystem files = path.getFileSystem(hadoop);
        Path draft = new Path(directory, '.' + name + '.' + UUID.randomUUID());
        try (OutputStream out = files.create(draft, true)) {
            out.write(text.getBytes(StandardCharsets.UTF_8));
        }
        files.delete(path, false);
        // Another attempt of the task may have written the same result.
        if (!files.rename(draft, path)) {
            files.delete(draft, false);
            if (!files.exists(path)) {
                throw new IOException(draft + " cannot be renamed to " + path);
            }
        }
    }

    @Override
    public String toString() {
        return directory;
    }
}
