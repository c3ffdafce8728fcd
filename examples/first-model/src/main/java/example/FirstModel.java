package example;

import dev.starling.autograd.Tape;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Adam;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;

/** Learns from 2,048 points of the plane which ones lie inside a circle. */
public final class FirstModel {
    private final Generator random = Generator.seeded(1);
    private final Sequential model = Sequential.of(Linear.of(2, 32, random), new Relu(), Linear.of(32, 2, random));

    void train() {
        Tensor points = random.normal(2048, 2);
        try (Adam adam = Adam.over(model).rate(0.01).build()) {
            for (int step = 0; step < 300; step++) {
                try (Scope _ = Scope.open("step")) {
                    Tape tape = new Tape().watch(adam.watched());
                    Tensor loss = tape.record(() -> Loss.crossEntropy().of(model.forward(points), inside(points)));
                    adam.step(tape.backward(loss));
                }
            }
        }
    }

    double accuracy() {
        Tensor unseen = random.normal(10_000, 2);
        return model.forward(unseen).argmax(1).eq(inside(unseen)).to(DType.F32).mean().item();
    }

    private static Tensor inside(Tensor points) {
        return points.square().sum(1).lt(1.4).to(DType.I64);
    }

    public static void main(String[] arguments) {
        FirstModel first = new FirstModel();
        first.train();
        System.out.printf("accuracy on unseen points: %.3f%n", first.accuracy());
    }
}
