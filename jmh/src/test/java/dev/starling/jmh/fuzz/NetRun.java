package dev.starling.jmh.fuzz;

import dev.starling.jmh.fuzz.NetCase.Change;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.Precision;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.TrainingState;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.Threads;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/** One training run of a case, with everything that it computed. */
final class NetRun {
    /**
     * A step: the loss, the paths of the parameters that are trained, and by path the weights before the step, the
     * gradients, and the weights after it.
     */
    record Step(double loss, Set<String> trained, Map<String, double[]> before, Map<String, double[]> gradients,
            Map<String, double[]> after) { }

    /** Checkpoints go to memory, since waiting for the disk would take longer than everything else here. */
    private static final Path MEMORY = Path.of("/dev/shm");

    private final NetCase of;
    final List<Step> steps = new ArrayList<>();
    /** Why a step was refused, which ends the run; {@code null} if none was. */
    String refusal;
    /** The refused step, without results. */
    Step refused;
    private NetPair pair;
    private Optimizer optimizer;
    private TrainingStep step;
    private Generator generator;
    private Map<String, double[]> gradients;
    private List<String> paths;

    private NetRun(NetCase of) {
        this.of = of;
    }

    /**
     * Trains.
     *
     * @param resumeAt the step before which the run is saved, closed, rebuilt and restored; -1 for none
     */
    static NetRun of(NetCase of, boolean captured, int threads, int resumeAt) {
        NetRun run = new NetRun(of);
        Threads.with(threads, () -> {
            try (Scope scope = Scope.open("run")) {
                run.train(captured, resumeAt);
            }
            return null;
        });
        return run;
    }

    private void train(boolean captured, int resumeAt) {
        build(captured, Generator.seeded(of.seed() + 3).state());
        try {
            Tensor x = of.inputs();
            Tensor y = of.targets();
            for (int i = 0; i < NetCase.STEPS; i++) {
                if (i == resumeAt) {
                    resume(captured, i);
                }
                for (Change change : of.changes()) {
                    apply(change, i);
                }
                Map<String, double[]> before = weights();
                Set<String> trained = trained();
                gradients = new TreeMap<>();
                double loss;
                try {
                    loss = step.run(x, y);
                } catch (TensorException e) {
                    if (e.problem() != TensorException.Problem.ANOMALY) {
                        throw e;
                    }
                    refusal = "step " + i + ": " + e.getMessage();
                    refused = new Step(Double.NaN, trained, before, Map.of(), before);
                    return;
                }
                steps.add(new Step(loss, trained, before, gradients, weights()));
            }
        } finally {
            close();
        }
    }

    private void build(boolean captured, Generator.State random) {
        pair = of.pair();
        Layer net = pair.ours();
        net.to(of.type());
        optimizer = of.optimizer(net);
        paths = List.copyOf(net.parameters().keySet());
        generator = Generator.of(random);
        step = new TrainingStep(net, of.loss(), optimizer, generator, new SingleProcess() {
            @Override
            public void gradient(int index, Tensor gradient) {
                gradients.put(paths.get(index), gradient.toDoubles());
            }
        });
        if (of.computing() == DType.BF16) {
            step.precision(Precision.of(DType.BF16));
        }
        if (captured) {
            step.captured();
        }
    }

    private void close() {
        step.close();
        optimizer.close();
        pair.ours().close();
    }

    private void resume(boolean captured, int at) {
        try {
            Path directory = Files.isDirectory(MEMORY) ? Files.createTempDirectory(MEMORY, "net-fuzz")
                    : Files.createTempDirectory("net-fuzz");
            TrainingState state = TrainingState.of(pair.ours(), optimizer);
            Path manifest = Checkpoint.save(directory, at, state.tensors(), state.notes());
            Generator.State random = generator.state();
            close();
            build(captured, random);
            for (int i = 0; i < at; i++) {
                for (Change change : of.changes()) {
                    if (change.action() == NetCase.Action.FREEZE || change.action() == NetCase.Action.UNFREEZE) {
                        apply(change, i);
                    }
                }
            }
            TrainingState fresh = TrainingState.of(pair.ours(), optimizer);
            Checkpoint saved = Checkpoint.open(manifest);
            saved.into(fresh.tensors());
            fresh.restore(saved.notes());
            try (var files = Files.list(directory)) {
                for (Path file : files.toList()) {
                    Files.delete(file);
                }
            }
            Files.delete(directory);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void apply(Change change, int at) {
        if (change.step() != at) {
            return;
        }
        List<Parameter> all = List.copyOf(pair.ours().parameters().values());
        Parameter p = all.get(change.parameter() % all.size());
        switch (change.action()) {
            case FREEZE -> {
                if (all.stream().filter(Parameter::requiresGradient).anyMatch(other -> other != p)) {
                    p.freeze();
                }
            }
            case UNFREEZE -> p.unfreeze();
            case REPLACE -> {
                p.to(of.type() == DType.F32 ? DType.F64 : DType.F32);
                p.to(of.type());
            }
            case SET -> {
                try (Scope scope = Scope.open("set")) {
                    p.set(p.value().mul(0.5));
                }
            }
        }
    }

    private Set<String> trained() {
        Set<String> paths = new TreeSet<>();
        pair.ours().parameters().forEach((path, p) -> {
            if (p.requiresGradient()) {
                paths.add(path);
            }
        });
        return paths;
    }

    private Map<String, double[]> weights() {
        Map<String, double[]> all = new TreeMap<>();
        pair.ours().state().forEach((path, p) -> all.put(path, p.value().toDoubles()));
        return all;
    }
}
