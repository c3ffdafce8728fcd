package dev.starling.kafka;

import dev.starling.nn.Layer;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.TrainingState;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;

/** A site whose points have a 0 in one of two columns, so that by itself it learns only one of two weights. */
final class GossipSite implements AutoCloseable {
    final Layer model = Linear.of(2, 1, Generator.seeded(5));
    final Optimizer optimizer = Sgd.over(model).rate(0.05).build();
    final KafkaGossip gossip;
    private final TrainingStep step;
    private final Generator random = Generator.seeded(9);
    private final int column;

    GossipSite(KafkaGossip gossip, int column) {
        this.gossip = gossip;
        this.column = column;
        gossip.start(TrainingState.of(model, optimizer));
        step = new TrainingStep(model, Loss.meanSquared(), optimizer, Generator.seeded(1), gossip);
    }

    /** Trains one step. */
    void step() {
        try (Scope scope = Scope.open("site")) {
            Tensor x = random.normal(16, 1);
            Tensor zero = x.mul(0);
            Tensor input = column == 0 ? Tensor.concat(1, x, zero) : Tensor.concat(1, zero, x);
            step.run(input, x.mul(column == 0 ? 3 : -2));
        }
    }

    float[] weights() {
        return model.state().get("weight").value().toFloats();
    }

    @Override
    public void close() {
        step.close();
        gossip.close();
        optimizer.close();
        model.close();
    }
}
