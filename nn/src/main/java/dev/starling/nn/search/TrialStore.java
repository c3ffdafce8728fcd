package dev.starling.nn.search;

import java.io.IOException;
import java.io.StringReader;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;

/** Where the results of trials are kept, a small text each, so that a search can go on later. */
public interface TrialStore {
    /** Returns a text, or {@code null} if there is none of this name. */
    String read(String name) throws IOException;

    /** Writes a text as a whole or not at all, in place of one of the same name. */
    void write(String name, String text) throws IOException;

    /** Keeps files in a directory, which is made if it is not there. */
    static TrialStore of(Path directory) {
        return new TrialStore() {
            @Override
            public String read(String name) throws IOException {
                try {
                    return Files.readString(directory.resolve(name));
                } catch (NoSuchFileException e) {
                    return null;
                }
            }

            @Override
            public void write(String name, String text) throws IOException {
                Files.createDirectories(directory);
                Path draft = Files.createTempFile(directory, name, ".draft");
                Files.writeString(draft, text);
                Files.move(draft, directory.resolve(name), StandardCopyOption.ATOMIC_MOVE,
                        StandardCopyOption.REPLACE_EXISTING);
            }
        };
    }

    /** Keeps a result. */
    default void put(String name, Trial trial) {
        StringBuilder text = new StringBuilder();
        Map<String, String> all = new LinkedHashMap<>(Map.of("epochs", Integer.toString(trial.epochs()), "loss",
                Double.toString(trial.loss()), "metric", Double.toString(trial.metric()), "seconds",
                Double.toString(trial.seconds())));
        trial.settings().forEach((setting, value) -> all.put("setting." + setting, value));
        if (trial.problem() != null) {
            all.put("problem", trial.problem());
        }
        new TreeMap<>(all).forEach((key, value) -> text.append(escaped(key)).append('=').append(escaped(value))
                .append('\n'));
        try {
            write(name, text.toString());
        } catch (IOException e) {
            throw new UncheckedIOException("the result of trial " + trial.number() + " cannot be kept: "
                    + e.getMessage(), e);
        }
    }

    private static String escaped(String text) {
        return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("=", "\\=")
                .replace(":", "\\:").replace(" ", "\\ ").replace("#", "\\#").replace("!", "\\!");
    }

    /** Returns the result of a planned trial, or {@code null} if it has not been made, or its file is damaged. */
    default Trial get(String name, Trial.Plan plan) {
        try {
            String text = read(name);
            Properties kept = new Properties();
            kept.load(new StringReader(text == null ? "" : text));
            return kept.containsKey("loss") && kept.containsKey("metric") && kept.containsKey("seconds")
                    ? new Trial(plan.number(), plan.settings(), plan.epochs(),
                    Double.parseDouble(kept.getProperty("loss")), Double.parseDouble(kept.getProperty("metric")),
                    Double.parseDouble(kept.getProperty("seconds")), kept.getProperty("problem")) : null;
        } catch (IllegalArgumentException e) {
            return null;
        } catch (IOException e) {
            throw new UncheckedIOException("the results of the search cannot be read: " + e.getMessage(), e);
        }
    }
}
