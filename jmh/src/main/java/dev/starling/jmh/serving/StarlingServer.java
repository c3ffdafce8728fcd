package dev.starling.jmh.serving;

import dev.starling.jmh.Model;
import dev.starling.jmh.StarlingModel;
import dev.starling.nn.serve.Predictor;
import dev.starling.tensor.Shape;
import java.time.Duration;
import java.util.function.UnaryOperator;

/** Starling's {@link Predictor}, with its defaults. */
final class StarlingServer implements Server {
    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    private final StarlingModel model;
    private final Predictor predictor;

    StarlingServer(Model architecture) {
        model = new StarlingModel(architecture);
        long[] batch = architecture.batchShape(1);
        predictor = Predictor.of(model.network(), Shape.of(batch).without(0).dims()).build();
    }

    @Override
    public UnaryOperator<float[]> client() {
        float[] result = new float[Model.CLASSES];
        return example -> {
            predictor.predict(example, result, TIMEOUT);
            return result;
        };
    }

    @Override
    public void close() {
        predictor.close();
        model.close();
    }
}
