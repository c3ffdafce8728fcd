package dev.starling.spark;

import dev.starling.nn.data.Field;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The columns of a model's input and target. The numbers of all input columns are concatenated to one f32 tensor; a
 * target is a class (i64) or one or more f32 numbers.
 *
 * @param inputs in the order of the selected rows
 * @param shape of one example's input
 * @param target follows the inputs; {@code null} for prediction
 * @param isClass whether the target is a class
 */
record Columns(List<Column> inputs, long[] shape, Column target, boolean isClass) implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final String INPUT = "spark.input.";
    static final String SHAPE = "spark.shape";
    private static final String IMAGE = "spark.image";
    static final String CLASS = "spark.class";

    /**
     * A column.
     *
     * @param name in the schema
     * @param type of its values
     * @param width number of elements of each value
     */
    record Column(String name, ColumnType type, int width) implements Serializable {
        private static final long serialVersionUID = 1L;
    }

    /** The columns that the application names. */
    record Selection(List<String> inputs, long[] shape, String target, boolean isClass) {
        /** Returns the names of all columns, in the order of {@link Columns}. */
        String[] names() {
            List<String> names = new ArrayList<>(inputs);
            if (target != null) {
                names.add(target);
            }
            return names.toArray(String[]::new);
        }

        /** Returns the columns of a DataFrame, after a check that they exist and hold numbers. */
        Dataset<Row> select(Dataset<Row> frame) {
            check(frame.schema());
            return frame.select(Arrays.stream(names()).map(SparkColumns::exactly)
                    .toArray(org.apache.spark.sql.Column[]::new));
        }

        /** Checks that the columns exist and hold numbers. */
        void check(StructType schema) {
            if (inputs.isEmpty()) {
                throw new SparkDataException("no input column is named; name one or more with inputs(...)");
            }
            for (String name : names()) {
                int columns = Collections.frequency(Arrays.asList(schema.fieldNames()), name);
                if (columns != 1) {
                    throw new SparkDataException(columns == 0 ? "there is no column \"" + name + "\"; the columns are "
                            + String.join(", ", schema.fieldNames()) : "there are " + columns + " columns \"" + name
                            + "\"; drop or rename all but one");
                }
                StructField field = schema.apply(name);
                ColumnType type = typeOf(name, field.dataType());
                if (name.equals(target) && isClass && !type.isScalar()) {
                    throw new SparkDataException("column \"" + name + "\" is of type "
                            + field.dataType().simpleString() + "; a class must be one number");
                }
            }
        }

        /** Returns the number of elements of an image, which is that of the input's shape. */
        static int imageWidth(String name, long[] shape) {
            if (shape == null || shape.length != 3 || shape[0] != 1 && shape[0] != 3) {
                throw new SparkDataException("column \"" + name + "\" holds images; the input's shape must be "
                        + "channels (1 or 3), height and width, such as shape(3, 32, 32), got "
                        + Arrays.toString(shape));
            }
            return (int) (shape[0] * shape[1] * shape[2]);
        }

        static ColumnType typeOf(String name, DataType type) {
            ColumnType known = ColumnType.of(type);
            if (known == null) {
                throw new SparkDataException("column \"" + name + "\" is of type " + type.simpleString()
                        + "; it must hold numbers: an integer type, float or double, an array of one, binary, MLlib's "
                        + "vector, or an image; cast decimals to double");
            }
            return known;
        }

        /** Determines the widths from the first row, which has exactly these columns. */
        Columns resolve(StructType selected, InternalRow first) {
            List<Column> columns = new ArrayList<>();
            for (int i = 0; i < selected.length(); i++) {
                StructField field = selected.apply(i);
                ColumnType type = ColumnType.of(field.dataType());
                if (first.isNullAt(i)) {
                    throw new SparkDataException("column \"" + field.name() + "\" is null in the first row; fill or "
                            + "drop rows with null");
                }
                boolean isInput = i < inputs.size();
                if (isInput && type == ColumnType.BYTES && Images.isFile(first.getBinary(i))) {
                    type = ColumnType.IMAGE_FILE;
                }
                columns.add(new Column(field.name(), type, type.isImage() ? imageWidth(field.name(), isInput ? shape
                        : null) : RowReader.width(type, first, i)));
            }
            Column last = target == null ? null : columns.removeLast();
            long width = columns.stream().mapToLong(Column::width).sum();
            long[] dims = shape == null ? new long[] {width} : shape;
            long count = Arrays.stream(dims).reduce(1, (a, b) -> a * b);
            if (count != width || width == 0) {
                throw new SparkDataException("the input shape " + Arrays.toString(dims) + " has " + count
                        + " numbers, but the columns " + inputs + " hold " + width + " in the first row");
            }
            return new Columns(List.copyOf(columns), dims, last, isClass);
        }
    }

    /**
     * Returns {@code others} after a check that their widths equal those of this.
     *
     * @throws SparkDataException if a width differs
     */
    Columns requireEqualWidths(Columns others) {
        for (int i = 0; i <= inputs.size(); i++) {
            Column own = i < inputs.size() ? inputs.get(i) : target;
            Column other = i < inputs.size() ? others.inputs.get(i) : others.target;
            if (own.width() != other.width()) {
                throw new SparkDataException("column \"" + own.name() + "\" has " + other.width() + " numbers in the "
                        + "first held-out row, but " + own.width() + " in the first row to train on");
            }
        }
        return others;
    }

    /** Returns the metadata that is stored with a model's weights. */
    Map<String, String> metadata() {
        Map<String, String> texts = new LinkedHashMap<>();
        for (int i = 0; i < inputs.size(); i++) {
            texts.put(INPUT + i, inputs.get(i).width() + " " + inputs.get(i).name());
        }
        texts.put(SHAPE, Arrays.stream(shape).mapToObj(Long::toString).collect(Collectors.joining(",")));
        texts.put(CLASS, Boolean.toString(isClass));
        texts.put(IMAGE, Boolean.toString(inputs.stream().anyMatch(c -> c.type().isImage())));
        return texts;
    }

    /** Returns the names of the input columns in such metadata. */
    static List<String> names(Map<String, String> metadata) {
        List<String> names = new ArrayList<>();
        for (int i = 0; metadata.containsKey(INPUT + i); i++) {
            names.add(metadata.get(INPUT + i).split(" ", 2)[1]);
        }
        return names;
    }

    /**
     * Returns the columns that map the arguments of a call to the input of the model with this metadata: one argument
     * for each column of training, or a single one with all numbers.
     *
     * @param names of the arguments, for messages
     * @throws SparkDataException if the number of arguments is wrong, or one of them holds no numbers
     */
    static Columns ofArguments(Map<String, String> metadata, List<String> names, List<DataType> types) {
        int count = names(metadata).size();
        if (count == 0 || names.size() != count && names.size() != 1) {
            throw new SparkDataException("the model takes " + count + " columns " + names(metadata) + ", got " + names);
        }
        try {
            return ofArguments(metadata, names, types, count);
        } catch (NumberFormatException | NullPointerException e) {
            throw new SparkDataException("the model's description of its columns is damaged: " + e.getMessage());
        }
    }

    private static Columns ofArguments(Map<String, String> metadata, List<String> names, List<DataType> types,
            int count) {
        long[] shape = shape(metadata.get(SHAPE)).dims();
        List<Column> columns = new ArrayList<>();
        for (int i = 0; i < names.size(); i++) {
            int width = names.size() < count ? (int) Shape.of(shape).count()
                    : Integer.parseInt(metadata.get(INPUT + i).split(" ", 2)[0]);
            ColumnType type = Selection.typeOf(names.get(i), types.get(i));
            if (type == ColumnType.BYTES && Boolean.parseBoolean(metadata.get(IMAGE))) {
                type = ColumnType.IMAGE_FILE;
            }
            columns.add(new Column(names.get(i), type, type.isImage() ? Selection.imageWidth(names.get(i), shape)
                    : width));
        }
        Columns all = new Columns(List.copyOf(columns), shape, null, false);
        if (all.width() != Shape.of(shape).count()) {
            throw new SparkDataException("the model takes the shape " + Arrays.toString(shape) + ", but the columns "
                    + names + " hold " + all.width() + " numbers");
        }
        return all;
    }

    /** Parses a shape such as {@code 1,28,28}. */
    static Shape shape(String text) {
        return Shape.of(Arrays.stream(text.split(",")).mapToLong(Long::parseLong).toArray());
    }

    /** Returns the number of elements of an input. */
    int width() {
        return inputs.stream().mapToInt(Column::width).sum();
    }

    /** Returns the fields of an example. */
    List<Field> fields() {
        List<Field> fields = new ArrayList<>();
        fields.add(Field.of(DType.F32, shape));
        if (target != null) {
            fields.add(isClass ? Field.of(DType.I64) : Field.of(DType.F32, target.width()));
        }
        return List.copyOf(fields);
    }
}
