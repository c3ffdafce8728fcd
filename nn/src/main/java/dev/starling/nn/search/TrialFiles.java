package dev.starling.nn.search;

import dev.starling.nn.checkpoint.CheckpointException;
import java.io.IOException;
import java.io.StringReader;
import java.nio.charset.CharacterCodingException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/** Results of trials as texts in a {@link TrialStore}. */
final class TrialFiles {
    private TrialFiles() {
    }

    /** Keeps a result. */
    static void put(TrialStore store, String name, Trial trial) {
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
            store.write(name, text.toString());
        } catch (IOException e) {
            throw new CheckpointException(Path.of(name), "the result of trial " + trial.number() + " cannot be kept: "
                    + e, "keep results where files can be written", e);
        }
    }

    /** Throws if results cannot be kept. */
    static void requireWritable(TrialStore store) {
        try {
            store.requireWritable();
        } catch (IOException e) {
            throw new CheckpointException(Path.of("trials"), "results of trials cannot be kept in " + store + ": " + e,
                    "keep results where files can be written", e);
        }
    }

    private static String escaped(String text) {
        return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("=", "\\=")
                .replace(":", "\\:").replace(" ", "\\ ").replace("#", "\\#").replace("!", "\\!");
    }

    /** Returns the result of a planned trial, or {@code null} if it has not been made, or its file is damaged. */
    static @Nullable Trial get(TrialStore store, String name, Trial.Plan plan) {
        try {
            String text = store.read(name);
            Properties kept = new Properties();
            kept.load(new StringReader(text == null ? "" : text));
            return kept.containsKey("loss") && kept.containsKey("metric") && kept.containsKey("seconds")
                    ? new Trial(plan.number(), plan.settings(), plan.epochs(),
                    Double.parseDouble(kept.getProperty("loss")), Double.parseDouble(kept.getProperty("metric")),
                    Double.parseDouble(kept.getProperty("seconds")), kept.getProperty("problem")) : null;
        } catch (IllegalArgumentException | CharacterCodingException damaged) {
            return null;
        } catch (IOException e) {
            throw new CheckpointException(Path.of(name), "a result of the search cannot be read: " + e,
                    "keep results where files can be read", e);
        }
    }
}
