package dev.starling.kafka;

import java.util.Arrays;
import java.util.List;

/** The results of one batch: for each record either an encoded row or an error. */
final class BatchScores {
    private final RowCodec codec;
    private final String[] errors;
    /** By record, the place among the rows that were scored. */
    private final int[] rows;
    private float[] results = {};
    private int width;
    private int failed;

    private BatchScores(RowCodec codec, int records) {
        this.codec = codec;
        errors = new String[records];
        rows = new int[records];
    }

    /** Decodes what can be, and scores it with one forward pass. */
    static BatchScores of(ServedModel model, RowCodec codec, List<byte[]> values) {
        BatchScores scores = new BatchScores(codec, values.size());
        int columns = codec.columns();
        float[] input = new float[values.size() * columns];
        int n = 0;
        for (int i = 0; i < values.size(); i++) {
            scores.rows[i] = n;
            scores.errors[i] = decode(codec, values.get(i), input, n * columns);
            if (scores.errors[i] == null) {
                n++;
            }
        }
        if (n > 0) {
            scores.results = model.score(Arrays.copyOf(input, n * columns), n, columns);
            scores.width = scores.results.length / n;
        }
        for (int i = 0; i < values.size(); i++) {
            scores.check(i, model.version());
        }
        return scores;
    }

    /** Decodes a value; returns the error, or {@code null} if there is none. */
    static String decode(RowCodec codec, byte[] value, float[] into, int at) {
        if (value == null) {
            return "the record has no value";
        }
        try {
            codec.decode(value, into, at);
            return null;
        } catch (RuntimeException e) {
            return e.getMessage() == null ? e.toString() : e.getMessage();
        }
    }

    private void check(int record, ModelVersion version) {
        for (int i = 0; errors[record] == null && i < width; i++) {
            float result = results[rows[record] * width + i];
            if (!Float.isFinite(result)) {
                errors[record] = version + " returned " + result + " in column " + i;
            }
        }
        failed += errors[record] == null ? 0 : 1;
    }

    /** Returns what is wrong with a record, or {@code null}. */
    String error(int record) {
        return errors[record];
    }

    byte[] result(int record) {
        return codec.encode(results, rows[record] * width, width);
    }

    /** Returns how many records have an error. */
    int failed() {
        return failed;
    }
}
