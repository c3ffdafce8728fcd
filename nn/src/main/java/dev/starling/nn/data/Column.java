package dev.starling.nn.data;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** A column of a {@link Table}. */
sealed interface Column {
    /** Returns the number of values, missing ones included. */
    int size();

    /** Returns a value as a number; NaN if it is missing. Only {@link Numbers} have numbers. */
    double number(int row);

    /** Returns a value as a text, or {@code null} if it is missing. */
    @Nullable String text(int row);

    /** Returns the values of some rows. */
    Column rows(int[] rows);

    /**
     * Numbers.
     *
     * @param values one per row; NaN if it is missing
     */
    record Numbers(double[] values) implements Column {
        @Override
        public int size() {
            return values.length;
        }

        @Override
        public double number(int row) {
            return values[row];
        }

        @Override
        public @Nullable String text(int row) {
            double value = values[row];
            return Double.isNaN(value) ? null : Math.abs(value) < 0x1p63 && value == (long) value
                    ? Long.toString((long) value) : Double.toString(value);
        }

        @Override
        public Column rows(int[] rows) {
            return new Numbers(Arrays.stream(rows).mapToDouble(row -> values[row]).toArray());
        }
    }

    /**
     * Texts, each of which is stored once.
     *
     * @param codes the index of each row's text in {@code values}; -1 if it is missing
     * @param values the different texts
     * @param decimal the character between units and tenths of numbers where the texts come from
     */
    record Texts(int[] codes, String[] values, char decimal) implements Column {
        @Override
        public int size() {
            return codes.length;
        }

        @Override
        public double number(int row) {
            throw new IllegalStateException("a text");
        }

        @Override
        public @Nullable String text(int row) {
            return codes[row] < 0 ? null : values[codes[row]];
        }

        @Override
        public Column rows(int[] rows) {
            return new Texts(Arrays.stream(rows).map(row -> codes[row]).toArray(), values, decimal);
        }
    }
}
