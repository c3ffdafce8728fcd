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

    /** Returns a value as the text that {@link #written} returns for it if it is a number, and otherwise as a text. */
    @Nullable String canonical(int row);

    /** Returns a number as a text, without a fraction if it is integral; {@code null} if it is NaN. */
    static @Nullable String written(double value) {
        return Double.isNaN(value) ? null : Math.abs(value) < 0x1p63 && value == (long) value
                ? Long.toString((long) value) : Double.toString(value);
    }

    /** Returns the values of some rows. */
    Column rows(int[] rows);

    /**
     * Numbers.
     *
     * @param values one per row; NaN if it is missing
     * @param texts what the rows have in the file, or "true" and "false"; {@code null} if that is what {@link #written}
     *     returns
     */
    record Numbers(double[] values, @Nullable Texts texts) implements Column {
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
            return texts == null ? written(values[row]) : texts.text(row);
        }

        @Override
        public @Nullable String canonical(int row) {
            return written(values[row]);
        }

        @Override
        public Column rows(int[] rows) {
            return new Numbers(Arrays.stream(rows).mapToDouble(row -> values[row]).toArray(),
                    texts == null ? null : texts.rows(rows));
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
        public @Nullable String canonical(int row) {
            String text = text(row);
            String number = text == null ? null : written(ColumnBuilder.parse(text, decimal));
            return number == null ? text : number;
        }

        @Override
        public Texts rows(int[] rows) {
            return new Texts(Arrays.stream(rows).map(row -> codes[row]).toArray(), values, decimal);
        }
    }
}
