package dev.starling.jmh.cluster;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/** Words that members of a crew leave for each other in the directory that they share. */
final class Meeting {
    private static final long PATIENCE_NS = 60_000_000_000L;

    private Meeting() {
    }

    static void say(Path directory, String name, String word) throws IOException {
        Path draft = Files.createTempFile(directory, name, ".draft");
        Files.writeString(draft, word);
        Files.move(draft, directory.resolve(name), StandardCopyOption.ATOMIC_MOVE);
    }

    static String hear(Path directory, String name) throws IOException, InterruptedException {
        long begin = System.nanoTime();
        while (!Files.exists(directory.resolve(name))) {
            if (System.nanoTime() - begin > PATIENCE_NS) {
                throw new IOException("waited 60 s for " + directory.resolve(name));
            }
            Thread.sleep(5);
        }
        return Files.readString(directory.resolve(name));
    }
}
