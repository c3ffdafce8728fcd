package dev.starling.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Copies checkpoints between a local directory, where Starling writes them, and a directory of a Hadoop file system,
 * which all executors can access. There, manifests are written last and deleted first, and a file is renamed when its
 * copy is complete, so that all files that a manifest names are complete.
 */
final class SharedCheckpoints {
    private static final String MANIFEST = ".json";
    private static final String DRAFT = ".copying";
    private static final String PREFIX = "step-";

    private final FileSystem shared;
    private final Path remote;
    private final java.nio.file.Path local;

    SharedCheckpoints(String address, Configuration hadoop, java.nio.file.Path local) {
        this.local = local;
        remote = new Path(address);
        try {
            shared = remote.getFileSystem(hadoop);
            if (!shared.mkdirs(remote)) {
                throw new IOException("the file system cannot create the directory");
            }
        } catch (IOException e) {
            throw failed("be created", e);
        }
    }

    /** Copies all shared checkpoints to the local directory, except those that rank 0 deletes or replaces meanwhile. */
    void fetch() {
        try {
            List<String> manifests = copyAll(true);
            copyAll(false);
            for (String manifest : manifests) {
                // One that has not changed had all of its data while that was copied.
                if (!isSame(manifest)) {
                    Files.delete(local.resolve(manifest));
                }
            }
        } catch (IOException e) {
            throw failed("be read", e);
        }
    }

    /** Copies all manifests, or all data; returns the names of the files that were copied. */
    private List<String> copyAll(boolean manifests) throws IOException {
        List<String> copied = new ArrayList<>();
        for (FileStatus file : shared.listStatus(remote)) {
            String name = file.getPath().getName();
            if (file.isFile() && name.startsWith(PREFIX) && !name.endsWith(DRAFT)
                    && name.endsWith(MANIFEST) == manifests && copy(name)) {
                copied.add(name);
            }
        }
        return copied;
    }

    /** Copies a file; returns {@code false} if it was deleted meanwhile. */
    private boolean copy(String name) throws IOException {
        Path source = new Path(remote, name);
        java.nio.file.Path target = local.resolve(name);
        try {
            shared.copyToLocalFile(false, source, new Path(target.toUri()), true);
            return true;
        } catch (IOException e) {
            if (shared.exists(source)) {
                throw e;
            }
            Files.deleteIfExists(target);
            return false;
        }
    }

    /** Makes the checkpoints in the shared directory the same as the local ones. */
    void publish() {
        try (Stream<java.nio.file.Path> files = Files.list(local)) {
            List<String> names = files.map(p -> p.getFileName().toString()).filter(n -> n.startsWith(PREFIX)
                    && !n.endsWith(".tmp")).sorted((a, b) -> Boolean.compare(a.endsWith(MANIFEST),
                    b.endsWith(MANIFEST))).toList();
            Set<String> present = new java.util.HashSet<>();
            for (FileStatus file : shared.listStatus(remote)) {
                present.add(file.getPath().getName());
            }
            for (String name : names) {
                // The name of a data file is a hash of its content, so that only manifests can differ.
                if (!present.contains(name) || name.endsWith(MANIFEST) && !isSame(name)) {
                    Path draft = new Path(remote, name + DRAFT);
                    Path target = new Path(remote, name);
                    shared.copyFromLocalFile(false, true, new Path(local.resolve(name).toUri()), draft);
                    if (present.contains(name)) {
                        SharedFiles.replace(shared, draft, target);
                    } else {
                        SharedFiles.rename(shared, draft, target);
                    }
                }
            }
            Set<String> kept = names.stream().collect(Collectors.toSet());
            List<String> old = present.stream().filter(n -> n.startsWith(PREFIX) && !kept.contains(n))
                    .sorted((a, b) -> Boolean.compare(b.endsWith(MANIFEST), a.endsWith(MANIFEST))).toList();
            for (String name : old) {
                shared.delete(new Path(remote, name), false);
            }
        } catch (IOException e) {
            throw failed("be written", e);
        }
    }

    /** Returns whether the shared file of this name has the content of the local one. */
    private boolean isSame(String name) throws IOException {
        try (InputStream in = shared.open(new Path(remote, name))) {
            return Arrays.equals(in.readAllBytes(), Files.readAllBytes(local.resolve(name)));
        } catch (FileNotFoundException e) {
            return false;
        }
    }

    private UncheckedIOException failed(String what, IOException e) {
        return new UncheckedIOException("checkpoints in " + remote + " cannot " + what + ": " + e.getMessage()
                + "; check the address and the permissions", e);
    }
}
