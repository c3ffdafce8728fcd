package dev.starling.spark.ml;

import java.io.Serializable;
import java.util.Arrays;
import org.apache.spark.ml.linalg.SQLDataTypes;
import org.apache.spark.ml.param.Param;
import org.apache.spark.ml.param.Params;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * The columns that the estimator and its model share.
 *
 * @param <T> the type of this, which setters return
 */
public interface ColumnParams<T> extends Params {
    /**
     * The parameters, created by the constructor after the stage has its uid.
     *
     * @param features see {@link #featuresCol}
     * @param prediction see {@link #predictionCol}
     * @param probability see {@link #probabilityCol}
     * @param values see {@link #valuesCol}
     */
    record Held(Param<String> features, Param<String> prediction, Param<String> probability, Param<String> values)
            implements Serializable {
        private static final long serialVersionUID = 1L;

        static Held of(Params stage) {
            Held held = new Held(new Param<>(stage, "featuresCol", "column of the model's input"),
                    new Param<>(stage, "predictionCol", "column of the class or the value"),
                    new Param<>(stage, "probabilityCol", "column of a vector of probabilities"),
                    new Param<>(stage, "valuesCol", "column of a vector of the model's numbers"));
            stage.setDefault(held.features, "features");
            stage.setDefault(held.prediction, "prediction");
            stage.setDefault(held.probability, "");
            stage.setDefault(held.values, "");
            return held;
        }
    }

    /** Returns the parameters. */
    Held held();

    /** The column of the model's input. */
    default Param<String> featuresCol() {
        return held().features();
    }

    /** The column that the model adds: the class, or the value; none if empty. */
    default Param<String> predictionCol() {
        return held().prediction();
    }

    /** The column of a vector of probabilities; none if empty. */
    default Param<String> probabilityCol() {
        return held().probability();
    }

    /** The column of a vector of the model's numbers, such as an embedding; none if empty. */
    default Param<String> valuesCol() {
        return held().values();
    }

    /** Sets the column of the model's input; the default is {@code features}. */
    default T setFeaturesCol(String column) {
        return with(featuresCol(), column);
    }

    /** Sets the column that the model adds; the default is {@code prediction}. */
    default T setPredictionCol(String column) {
        return with(predictionCol(), column);
    }

    /** Sets the column of probabilities; by default there is none. */
    default T setProbabilityCol(String column) {
        return with(probabilityCol(), column);
    }

    /** Sets the column of the model's numbers; by default there is none. */
    default T setValuesCol(String column) {
        return with(valuesCol(), column);
    }

    @SuppressWarnings("unchecked")
    private <V> T with(Param<V> parameter, V value) {
        set(parameter, value);
        return (T) this;
    }

    /** Returns the schema with the columns that are added. */
    default StructType widen(StructType schema) {
        String features = getOrDefault(featuresCol());
        if (!Arrays.asList(schema.fieldNames()).contains(features)) {
            throw new IllegalArgumentException("there is no column \"" + features + "\"; the columns are "
                    + String.join(", ", schema.fieldNames()));
        }
        StructType wider = add(schema, getOrDefault(predictionCol()), DataTypes.DoubleType);
        wider = add(wider, getOrDefault(probabilityCol()), SQLDataTypes.VectorType());
        return add(wider, getOrDefault(valuesCol()), SQLDataTypes.VectorType());
    }

    private static StructType add(StructType schema, String column, DataType type) {
        if (Arrays.asList(schema.fieldNames()).contains(column)) {
            throw new IllegalArgumentException("there is a column \"" + column + "\" already; name another");
        }
        return column.isEmpty() ? schema : schema.add(column, type, false);
    }
}
