package dev.starling.distributed;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.UUID;

/** Identifies hosts: processes of one host can map each other's memory. */
final class Hosts {
    private static final Path BOOT = Path.of("/proc/sys/kernel/random/boot_id");
    private static final Path NAMESPACE = Path.of("/proc/self/ns/pid");

    private Hosts() { }

    /** Returns a text that is equal for processes of one running kernel that see each other in {@code /proc}. */
    static String own() {
        try {
            return Files.readString(BOOT).strip() + '/' + Files.readSymbolicLink(NAMESPACE);
        } catch (IOException | UnsupportedOperationException e) {
            return UUID.randomUUID().toString();
        }
    }
}
