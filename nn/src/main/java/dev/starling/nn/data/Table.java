package dev.starling.nn.data;

import dev.starling.tensor.Generator;
import dev.starling.tensor.TensorException;
import java.lang.reflect.RecordComponent;
import java.math.BigInteger;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * Columns of numbers and texts with names, in memory: a {@linkplain CsvFile#read file of comma-separated values}, Java
 * records, or maps. Numbers are 64-bit floating; values may be missing. Immutable, so any number of threads may read
 * it.
 */
public final class Table {
    private final Map<String, Column> columns;
    private final int rows;
    /** The file that the rows come from, or {@code null} if they come from none. */
    private final @Nullable Path source;
    /** The line of each row in the file; empty without a file. */
    private final int[] lines;
    /** What a column is that does not exist: all values are missing; {@code null} if it is an error. */
    private final @Nullable Column absent;

    Table(Map<String, Column> columns, int rows, @Nullable Path source, int[] lines, boolean open) {
        this.columns = columns;
        this.rows = rows;
        this.source = source;
        this.lines = lines;
        absent = open ? missing(rows) : null;
    }

    /**
     * Returns a table with a column for each component of a record: numbers of numeric and {@code boolean} components,
     * texts of all others, by their {@code toString()}. A component that is {@code null} is a missing value, as is NaN.
     *
     * @param type of the records; if it is in a named module, its package must be open to this library's
     */
    public static <R extends Record> Table of(Class<R> type, List<? extends R> records) {
        if (!type.isRecord()) {
            throw TensorException.argument("table", type + " is no record", "pass the class of the records");
        }
        requireNoNull(records, "record");
        Map<String, Column> columns = new LinkedHashMap<>();
        for (RecordComponent component : type.getRecordComponents()) {
            List<@Nullable Object> values = new ArrayList<>(records.size());
            records.forEach(each -> values.add(get(component, each)));
            columns.put(component.getName(), column(values, isNumeric(component.getType())));
        }
        return new Table(columns, records.size(), null, new int[0], false);
    }

    /**
     * Returns a table of maps from a column's name to a value, such as decoded JSON objects. A column has numbers if
     * each of its values is a {@link Number} or {@link Boolean}; a value that is {@code null} or absent is missing, as
     * is NaN. A column that no map has exists, too: all its values are missing.
     *
     * @param maps with texts as keys
     */
    public static Table of(List<? extends Map<?, ?>> maps) {
        requireNoNull(maps, "map");
        Set<String> names = new LinkedHashSet<>();
        maps.forEach(row -> row.keySet().forEach(key -> names.add(name(key))));
        Map<String, Column> columns = new LinkedHashMap<>();
        for (String name : names) {
            List<@Nullable Object> values = new ArrayList<>(maps.size());
            maps.forEach(row -> values.add(row.get(name)));
            columns.put(name, column(values, values.stream().filter(Objects::nonNull).map(Objects::requireNonNull)
                    .allMatch(value -> isNumeric(value.getClass()))));
        }
        return new Table(columns, maps.size(), null, new int[0], true);
    }

    static void requireNoNull(Collection<?> rows, String what) {
        int at = 0;
        for (Object each : rows) {
            if (each == null) {
                throw TensorException.argument("data", what + " " + at + " is null", "leave it out");
            }
            at++;
        }
    }

    private static String name(Object key) {
        if (key instanceof String name) {
            return name;
        }
        throw TensorException.argument("table", "the key " + key + " is no text", "use names of columns as keys");
    }

    private static boolean isNumeric(Class<?> type) {
        return type.isPrimitive() ? type != char.class
                : Number.class.isAssignableFrom(type) || type == Boolean.class;
    }

    private static Column missing(int rows) {
        double[] none = new double[rows];
        Arrays.fill(none, Double.NaN);
        return new Column.Numbers(none, null);
    }

    /** Returns a number as a text; an integral one beyond 2⁵³ keeps its digits. */
    private static @Nullable String text(Number number) {
        return isLarge(number) ? number.toString() : Column.written(number.doubleValue());
    }

    private static boolean isLarge(@Nullable Object value) {
        return value instanceof Long integral && Math.abs(integral) > 1L << 53
                || value instanceof BigInteger integer && integer.bitLength() > 53;
    }

    private static Column column(List<@Nullable Object> values, boolean numbers) {
        ColumnBuilder texts = new ColumnBuilder(ColumnBuilder.Type.TEXTS, '.');
        boolean written = numbers && values.stream().noneMatch(value -> value instanceof Boolean || isLarge(value));
        if (!written) {
            values.forEach(value -> texts.add(value instanceof Number number ? text(number)
                    : value == null ? null : value.toString()));
        }
        return !numbers ? texts.build() : new Column.Numbers(values.stream().mapToDouble(value -> switch (value) {
            case null -> Double.NaN;
            case Boolean truth -> truth ? 1 : 0;
            default -> ((Number) value).doubleValue();
        }).toArray(), written ? null : texts.texts());
    }

    private static @Nullable Object get(RecordComponent component, Record row) {
        try {
            component.getAccessor().setAccessible(true);
            return component.getAccessor().invoke(row);
        } catch (ReflectiveOperationException | RuntimeException e) {
            throw (TensorException) TensorException.argument("table", "component " + component.getName() + " of "
                    + component.getDeclaringRecord().getName() + " cannot be read: " + e,
                    "open its package to dev.starling.nn, or correct its accessor").initCause(e);
        }
    }

    /** Returns the number of rows. */
    public int rows() {
        return rows;
    }

    /** Returns the names of the columns, from left to right. */
    public List<String> columns() {
        return List.copyOf(columns.keySet());
    }

    /** Returns whether a column has numbers. */
    public boolean isNumeric(String column) {
        return column(column) instanceof Column.Numbers;
    }

    /** Returns a number; NaN if it is missing. */
    public double number(String column, int row) {
        return numeric(column).number(checked(row));
    }

    /** Returns the numbers of a column, NaN for those that are missing. */
    public double[] numbers(String column) {
        return numeric(column).values().clone();
    }

    /**
     * Returns a value of any column as a text, or {@code null} if it is missing: as the file has it, unless the column
     * was read with {@link CsvFile#numbers}; {@code true} or {@code false}; an integral number between ±2⁶³ without a
     * fraction. The text does not depend on other rows.
     */
    public @Nullable String text(String column, int row) {
        return column(column).text(checked(row));
    }

    /**
     * Returns a value of any column as a text that equal numbers share: {@code 7} of the number 7 and of
     * the texts {@code 7.0} and {@code 07}, {@code 1} of the {@code boolean} true in a column of numbers. Of what is no
     * number it is {@link #text}, {@code null} if it is missing.
     */
    public @Nullable String canonicalText(String column, int row) {
        return column(column).canonical(checked(row));
    }

    /** Returns some rows, in the order of {@code indices}, which may name a row several times. */
    public Table rows(int... indices) {
        for (int row : indices) {
            checked(row);
        }
        Map<String, Column> chosen = new LinkedHashMap<>();
        columns.forEach((name, column) -> chosen.put(name, column.rows(indices)));
        return new Table(chosen, indices.length, source, source == null ? lines
                : Arrays.stream(indices).map(row -> lines[row]).toArray(), absent != null);
    }

    /**
     * Divides the rows at random, for example into 80 % to train and 20 % to measure with {@code split(7, 0.8, 0.2)}.
     *
     * @param seed determines the division
     * @param shares of the rows; their sum must be at most 1
     */
    public List<Table> split(long seed, double... shares) {
        long[] order = Generator.seeded(seed).order(rows);
        return Splits.bounds(rows, shares).stream()
                .map(part -> rows(IntStream.range(part[0], part[1]).map(i -> (int) order[i]).toArray())).toList();
    }

    /** Returns where a row comes from, for messages: {@code houses.csv, line 7}, or {@code row 5}, counted from 0. */
    public String origin(int row) {
        return source == null ? "row " + row : source + ", line " + lines[checked(row)];
    }

    Column.Numbers numeric(String name) {
        return switch (column(name)) {
            case Column.Numbers numbers -> numbers;
            case Column.Texts texts -> throw TensorException.argument("table", "column \"" + name
                    + "\" has texts, not numbers" + firstText(texts), (source == null ? "use numbers in all rows"
                    : "read it with CsvFile.numbers(\"" + name + "\") to find the lines")
                    + ", or use it as categories");
        };
    }

    private String firstText(Column.Texts column) {
        for (int row = 0; row < rows; row++) {
            String text = column.text(row);
            if (text != null && Double.isNaN(ColumnBuilder.parse(text, column.decimal()))) {
                return ", for example \"" + text + "\" in " + origin(row);
            }
        }
        return "";
    }

    Column column(String name) {
        Column column = columns.getOrDefault(name, absent);
        if (column == null) {
            throw TensorException.argument("table", "there is no column \"" + name + "\", but " + columns.keySet(),
                    "correct the name");
        }
        return column;
    }

    private int checked(int row) {
        if (row < 0 || row >= rows) {
            throw new TensorException(TensorException.Problem.INDEX, "table", List.of(), "row " + row
                    + " does not exist, there are " + rows, "use 0 to rows() - 1");
        }
        return row;
    }

    /** Returns the number of rows and the columns with their types. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder("Table of ").append(rows).append(" rows");
        columns.forEach((name, column) -> text.append("\n  ").append(name).append(": ")
                .append(column instanceof Column.Numbers ? "numbers" : "texts").append(missing(column)));
        return text.toString();
    }

    private static String missing(Column column) {
        long missing = IntStream.range(0, column.size()).filter(row -> column.text(row) == null).count();
        return missing == 0 ? "" : ", " + missing + " missing";
    }
}
