package dev.starling.distributed.hostile;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.TreeSet;
import java.util.stream.Stream;

/**
 * What a process holds, as the system sees it.
 *
 * @param residentBytes resident memory, shared memory included
 * @param files open files and sockets
 */
record ProcessUsage(long residentBytes, int files) {
    static ProcessUsage of(long pid) {
        try (Stream<String> status = Files.lines(Path.of("/proc/" + pid + "/status"));
                Stream<Path> files = Files.list(Path.of("/proc/" + pid + "/fd"))) {
            return new ProcessUsage(status.filter(line -> line.startsWith("VmRSS:"))
                    .mapToLong(line -> Long.parseLong(line.replaceAll("\\D+", ""))).sum() << 10, (int) files.count());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Returns the bytes of all files in a directory. */
    static long bytes(Path directory) {
        try (Stream<Path> all = Files.walk(directory)) {
            return all.mapToLong(file -> file.toFile().isFile() ? file.toFile().length() : 0).sum();
        } catch (IOException | UncheckedIOException e) {
            return -1; // A file was deleted meanwhile.
        }
    }

    /** Returns the ports of all UDP sockets of a process. */
    static List<Integer> datagramPorts(long pid) {
        TreeSet<String> sockets = new TreeSet<>();
        try (Stream<Path> files = Files.list(Path.of("/proc/" + pid + "/fd"))) {
            for (Path file : files.toList()) {
                try {
                    String target = Files.readSymbolicLink(file).toString();
                    if (target.startsWith("socket:[")) {
                        sockets.add(target.substring(8, target.length() - 1));
                    }
                } catch (NoSuchFileException e) {
                    continue; // The process has closed it.
                }
            }
            try (Stream<String> lines = Files.lines(Path.of("/proc/net/udp"))) {
                return lines.skip(1).map(line -> line.strip().split("\\s+")).filter(words -> sockets.contains(words[9]))
                        .map(words -> Integer.parseInt(words[1].substring(words[1].indexOf(':') + 1), 16)).toList();
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
