package dev.starling.jmh.cluster;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/** Values that the members of a benchmark publish to each other as files in their directory. */
final class SharedValues {
    private static final long TIMEOUT_NS = 60_000_000_000L;

    private SharedValues() {
    }

    /** Publishes a value under a name. */
    static void publish(Path directory, String name, String value) throws IOException {
        Path draft = Files.createTempFile(directory, name, ".draft");
        Files.writeString(draft, value);
        Files.move(draft, directory.resolve(name), StandardCopyOption.ATOMIC_MOVE);
    }

    /** Returns the value of a name, after waiting until a member publishes it; throws after 60 s. */
    static String await(Path directory, String name) throws IOException, InterruptedException {
        long begin = System.nanoTime();
        while (!Files.exists(directory.resolve(name))) {
            if (System.nanoTime() - begin > TIMEOUT_NS) {
                throw new IOException("no member has published " + directory.resolve(name) + " within 60 s");
            }
            Thread.sleep(5);
        }
        return Files.readString(directory.resolve(name));
    }
}
