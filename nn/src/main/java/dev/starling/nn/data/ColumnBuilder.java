package dev.starling.nn.data;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * Collects the values of a column. Without a given type the column has numbers if every value that is not missing is
 * one, and otherwise texts.
 */
final class ColumnBuilder {
    private static final int MISSING = -1;

    /** What a column holds. */
    enum Type { NUMBERS, TEXTS, EITHER }

    private final Type type;
    private final char decimal;
    private final Map<String, Integer> codeOf = new HashMap<>();
    private final List<String> values = new ArrayList<>();
    private int[] codes = new int[16];
    private double[] numbers = new double[16];
    private int size;

    ColumnBuilder(Type type, char decimal) {
        this.type = type;
        this.decimal = decimal;
    }

    /** Adds a value; {@code null} if it is missing. Returns whether it has the column's type. */
    boolean add(@Nullable String text) {
        if (type == Type.NUMBERS) {
            double number = text == null ? Double.NaN : parse(text, decimal);
            return add(number) && (text == null || !Double.isNaN(number));
        }
        if (size == codes.length) {
            codes = Arrays.copyOf(codes, grown());
        }
        codes[size++] = text == null ? MISSING : code(text);
        return true;
    }

    /** Adds a number to a column of numbers; NaN if it is missing. */
    boolean add(double number) {
        if (size == numbers.length) {
            numbers = Arrays.copyOf(numbers, grown());
        }
        numbers[size++] = number;
        return true;
    }

    private int grown() {
        return (int) Math.min(Integer.MAX_VALUE - 8L, size + (size >> 1) + 1L);
    }

    private int code(String text) {
        Integer code = codeOf.putIfAbsent(text, values.size());
        if (code != null) {
            return code;
        }
        values.add(text);
        return values.size() - 1;
    }

    Column build() {
        if (type == Type.NUMBERS) {
            return new Column.Numbers(Arrays.copyOf(numbers, size), null);
        }
        double[] parsed = type == Type.TEXTS ? null : allNumbers();
        if (parsed == null) {
            return texts();
        }
        boolean written = IntStream.range(0, parsed.length).allMatch(i -> values.get(i).equals(
                Column.written(parsed[i])));
        return new Column.Numbers(Arrays.stream(codes, 0, size).mapToDouble(c -> c < 0 ? Double.NaN : parsed[c])
                .toArray(), written ? null : texts());
    }

    /** Returns the column of a builder of texts. */
    Column.Texts texts() {
        return new Column.Texts(Arrays.copyOf(codes, size), values.toArray(String[]::new), decimal);
    }

    /** Returns the different texts as numbers, or {@code null} if one of them is no number. */
    private double @Nullable [] allNumbers() {
        double[] parsed = new double[values.size()];
        for (int i = 0; i < parsed.length; i++) {
            parsed[i] = parse(values.get(i), decimal);
            if (Double.isNaN(parsed[i])) {
                return null;
            }
        }
        return parsed;
    }

    /** Returns a finite decimal number, or NaN if the text is none. Java's own suffixes and hexadecimals are none. */
    static double parse(String text, char decimal) {
        String digits = text.strip();
        boolean hasDigit = false;
        for (int i = 0; i < digits.length(); i++) {
            char c = digits.charAt(i);
            hasDigit |= c >= '0' && c <= '9';
            if (!(c >= '0' && c <= '9' || c == decimal || c == '+' || c == '-' || c == 'e' || c == 'E')) {
                return Double.NaN;
            }
        }
        if (!hasDigit) {
            return Double.NaN;
        }
        try {
            double number = Double.parseDouble(decimal == '.' ? digits : digits.replace(decimal, '.'));
            return Double.isInfinite(number) ? Double.NaN : number;
        } catch (NumberFormatException e) {
            return Double.NaN;
        }
    }
}
