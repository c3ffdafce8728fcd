package dev.starling.nn.train;

import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Share;
import dev.starling.nn.optim.Optimizer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** The settings of a trainer that all ranks must have in common, and their comparison by sums over ranks. */
final class CommonSettings {
    /** Bits of a checksum that are compared at a time: the sum of 4,096 squares is exact in double precision. */
    private static final int PART_BITS = 16;
    private static final int PARTS = Long.SIZE / PART_BITS;

    private CommonSettings() {
    }

    /** Returns the settings of a trainer. */
    static RunSettings of(Trainer.Builder config, DataLoader data) {
        Share share = config.strategy.share();
        Map<String, String> values = new LinkedHashMap<>(data.settings());
        if (!share.isOwn()) {
            values.put("rows of data", Integer.toString(data.size()));
        }
        values.put("epochs", Integer.toString(config.epochs));
        values.put("batches in a step", Integer.toString(config.accumulate));
        values.put("loss", config.task().describe());
        values.put("precision", config.precision.toString());
        values.put("seed", Long.toString(config.seed));
        if (share.isSynchronous()) {
            values.put("held-out data", config.heldOut == null ? "none" : share.isOwn() ? "rows of each rank's own"
                    : config.heldOut.size() + " examples in batches of " + config.heldOut.batchSize());
            values.put("metrics", config.metrics.stream().map(Metric::name).collect(Collectors.joining(", ")));
            values.put("checkpoints", config.directory == null ? "none" : config.everySteps == 0 ? "after each epoch"
                    : "after every " + config.everySteps + " steps");
        }
        String kept = config.listeners.stream().filter(each -> each instanceof ResumableListener resumable
                && !resumable.tensors().isEmpty()).map(Object::toString).collect(Collectors.joining(", "));
        if (share.isSynchronous() && !kept.isEmpty()) {
            values.put("listeners that keep weights", kept);
        }
        values.putAll(RunSettings.of(config.model, config.optimizer).values());
        if (share.isOwn() && !share.isSynchronous()) {
            // Each rank may spread its schedule over its own number of batches.
            values.remove(Optimizer.SCHEDULE);
        }
        return new RunSettings(values);
    }

    /**
     * Compares the settings of all ranks by the sums of a strategy. Collective.
     *
     * @throws SettingsMismatchException on all ranks, if they differ
     */
    static void compare(RunSettings own, DistributionStrategy strategy, Collective collective) {
        int world = strategy.world();
        if (world == 1) {
            return;
        }
        byte[] text = encode(own);
        // For each part of the checksum its sum and the sum of its squares, and the length that each rank's text has.
        double[] sums = new double[2 * PARTS + world];
        long checksum = own.checksum();
        for (int i = 0; i < PARTS; i++) {
            long part = checksum >>> i * PART_BITS & (1 << PART_BITS) - 1;
            sums[2 * i] = part;
            sums[2 * i + 1] = part * part;
        }
        sums[2 * PARTS + strategy.rank()] = text.length;
        collective.sum(sums);
        boolean equal = true;
        for (int i = 0; i < PARTS; i++) {
            // The mean of squares is the square of the mean only where all values are equal.
            equal &= sums[2 * i] * sums[2 * i] == world * sums[2 * i + 1];
        }
        if (equal) {
            return;
        }
        List<RunSettings> byRank = new ArrayList<>();
        for (int rank = 0; rank < world; rank++) {
            double[] bytes = new double[(int) sums[2 * PARTS + rank]];
            for (int i = 0; rank == strategy.rank() && i < bytes.length; i++) {
                bytes[i] = text[i];
            }
            collective.sum(bytes);
            byRank.add(decode(bytes));
        }
        RunSettings.requireSame(byRank, "rank");
    }

    private static byte[] encode(RunSettings settings) {
        StringBuilder text = new StringBuilder();
        settings.values().forEach((name, value) -> text.append(name).append('\0').append(value).append('\0'));
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    private static RunSettings decode(double[] bytes) {
        byte[] text = new byte[bytes.length];
        for (int i = 0; i < text.length; i++) {
            text[i] = (byte) bytes[i];
        }
        String[] texts = new String(text, StandardCharsets.UTF_8).split("\0", -1);
        Map<String, String> values = new LinkedHashMap<>();
        for (int i = 0; i + 1 < texts.length; i += 2) {
            values.put(texts[i], texts[i + 1]);
        }
        return new RunSettings(values);
    }
}
