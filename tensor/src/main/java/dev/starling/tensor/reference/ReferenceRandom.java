package dev.starling.tensor.reference;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Fill;
import dev.starling.tensor.op.Random;
import java.util.Objects;

/** Random numbers as their records define them, and tensors filled with known values. */
final class ReferenceRandom {
    private ReferenceRandom() {
    }

    static void run(Random op, Tensor[] in, Tensor out) {
        Elements x = in.length > 0 ? Elements.of(in[0]) : null;
        Elements y = Elements.of(out);
        for (long i = 0; i < out.count(); i++) {
            switch (op) {
                case Random.Uniform o -> y.set(i, o.at(i));
                case Random.Normal o -> y.set(i, o.at(i));
                case Random.Bernoulli o -> y.setLong(i, o.at(i) ? 1 : 0);
                case Random.Integers o -> y.setLong(i, o.at(i));
                case Random.Dropout o -> y.set(i,
                        o.keeps(i) ? Objects.requireNonNull(x).get(i) / (1 - o.probability()) : 0);
            }
        }
    }

    static void fill(Fill op, Tensor out) {
        Elements y = Elements.of(out);
        for (long i = 0; i < out.count(); i++) {
            y.set(i, switch (op) {
                case Fill.Full o -> o.value();
                case Fill.Range o -> o.start() + i * o.step();
            });
        }
    }
}
