package dev.starling.spark;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import java.util.Map;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.api.java.UDF1;

/** A model as a function of SQL: one array of numbers in, one result out. */
final class ModelFunction implements UDF1<scala.collection.Seq<? extends Number>, Object> {
    private static final long serialVersionUID = 1L;

    private final Broadcast<byte[]> weights;
    private final String digest;
    private final String shape;
    private final Output.Kind kind;

    ModelFunction(Broadcast<byte[]> weights, String digest, Map<String, String> metadata, Output.Kind kind) {
        this.weights = weights;
        this.digest = digest;
        shape = metadata.get(Columns.SHAPE);
        this.kind = kind;
    }

    @Override
    public Object call(scala.collection.Seq<? extends Number> numbers) {
        if (numbers == null) {
            return null;
        }
        float[] values = new float[numbers.length()];
        for (int i = 0; i < values.length; i++) {
            Number number = numbers.apply(i);
            if (number == null || !Float.isFinite(number.floatValue())) {
                throw new SparkDataException("the function's argument holds " + number + " at index " + i
                        + "; numbers must be finite f32");
            }
            values[i] = number.floatValue();
        }
        Shape input = Columns.shape(shape).insert(0, 1);
        if (input.count() != values.length) {
            throw new SparkDataException("the function's argument has " + values.length + " numbers, the model takes "
                    + input.count());
        }
        Layer model = ExecutorModels.lease(digest, weights::value);
        try (Scope scope = Scope.open("predict")) {
            Tensor x = Tensor.of(values).reshape(input.dims());
            Tensor y = Mode.inference(() -> model.forward(x)).reshape(1, -1);
            return kind.ofFirst(y);
        } finally {
            ExecutorModels.release(digest);
        }
    }
}
