package dev.starling.kafka;

import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;

/** Rows as JSON arrays of numbers. */
record JsonRows(int columns) implements RowCodec {
    private static final int MAX_NUMBER = 64;
    private static final Pattern NUMBER = Pattern.compile("-?(0|[1-9]\\d*+)(\\.\\d++)?([eE][+-]?\\d++)?");

    @Override
    public void decode(byte[] value, float[] into, int at) {
        String text = new String(value, StandardCharsets.UTF_8).strip();
        if (value.length > (columns + 1L) * MAX_NUMBER || !text.startsWith("[") || !text.endsWith("]")) {
            throw new StreamException("a row must be a JSON array of " + columns + " numbers, got " + excerpt(text));
        }
        String[] numbers = text.substring(1, text.length() - 1).split(",", -1);
        if (numbers.length != columns) {
            throw new StreamException("a row must have " + columns + " numbers, got " + numbers.length);
        }
        for (int i = 0; i < columns; i++) {
            String number = numbers[i].strip();
            if (!NUMBER.matcher(number).matches()) {
                throw new StreamException("column " + i + " must be a number, got " + excerpt(number));
            }
            into[at + i] = Float.parseFloat(number);
        }
        FloatRows.requireFinite(into, at, columns);
    }

    private static String excerpt(String text) {
        return '"' + (text.length() > 40 ? text.substring(0, 40) + "…" : text) + '"';
    }

    @Override
    public byte[] encode(float[] from, int at, int count) {
        StringBuilder json = new StringBuilder("[");
        for (int i = 0; i < count; i++) {
            json.append(i == 0 ? "" : ", ").append(from[at + i]);
        }
        return json.append(']').toString().getBytes(StandardCharsets.UTF_8);
    }
}
