package dev.starling.kafka;

import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;

/** The results of one batch: for each record either an encoded row or an error. */
final class BatchScores {
    private final ModelVersion version;
    private final String[] errors;
    private final byte[][] results;

    private BatchScores(ModelVersion version, int records) {
        this.version = version;
        errors = new String[records];
        results = new byte[records][];
    }

    /**
     * Decodes the values that can be decoded, scores them with one forward pass and encodes the results.
     *
     * @throws StreamException if the model fails
     */
    static BatchScores of(ServedModel model, RowCodec codec, List<byte[]> values) {
        BatchScores scores = new BatchScores(model.version(), values.size());
        int columns = codec.columns();
        float[] input = new float[Math.multiplyExact(values.size(), columns)];
        int n = 0;
        for (int i = 0; i < values.size(); i++) {
            scores.errors[i] = decode(codec, values.get(i), input, n * columns);
            if (scores.errors[i] == null) {
                n++;
            }
        }
        if (n > 0) {
            float[] numbers = model.score(Arrays.copyOf(input, n * columns), n, columns);
            int width = numbers.length / n;
            for (int i = 0, row = 0; i < values.size(); i++) {
                if (scores.errors[i] == null) {
                    scores.encode(i, codec, numbers, row++ * width, width);
                }
            }
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
            FloatRows.requireFinite(into, at, codec.columns());
            return null;
        } catch (RuntimeException e) {
            return e.getMessage() == null ? e.toString() : e.getMessage();
        }
    }

    private void encode(int record, RowCodec codec, float[] numbers, int at, int width) {
        for (int i = 0; i < width; i++) {
            if (!Float.isFinite(numbers[at + i])) {
                errors[record] = version + " returned " + numbers[at + i] + " in column " + i;
                return;
            }
        }
        try {
            results[record] = codec.encode(numbers, at, width);
        } catch (RuntimeException e) {
            errors[record] = "the result of " + version + " cannot be encoded: " + e;
        }
    }

    /** Returns what is wrong with a record, or {@code null}. */
    String error(int record) {
        return errors[record];
    }

    /**
     * Returns the headers of a result: the record's own and the model's. A result that is too large becomes an error.
     *
     * @param maxBytes the largest size of a record
     * @return {@code null} if there is an error
     */
    Headers headers(int record, byte[] key, Headers source, long maxBytes) {
        if (errors[record] != null) {
            return null;
        }
        Headers headers = new RecordHeaders(source);
        StreamHeaders.scored(headers, version);
        long bytes = StreamHeaders.bytes(key, results[record], headers);
        if (bytes > maxBytes) {
            errors[record] = "the result with the key and headers of its record takes " + bytes + " bytes, max."
                    + "request.size is " + maxBytes;
            return null;
        }
        return headers;
    }

    byte[] result(int record) {
        return results[record];
    }
}
