package dev.starling.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.autograd.Gradients;
import dev.starling.autograd.Tape;
import dev.starling.jmh.pytorch.Torch;
import dev.starling.nn.Parameter;
import dev.starling.nn.layer.Gru;
import dev.starling.nn.layer.Lstm;
import dev.starling.nn.layer.Recurrent;
import dev.starling.nn.layer.Rnn;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.stream.Stream;
import org.bytedeco.javacpp.PointerScope;
import org.bytedeco.pytorch.GRUImpl;
import org.bytedeco.pytorch.GRUOptions;
import org.bytedeco.pytorch.LSTMImpl;
import org.bytedeco.pytorch.LSTMOptions;
import org.bytedeco.pytorch.Module;
import org.bytedeco.pytorch.RNNImpl;
import org.bytedeco.pytorch.RNNOptions;
import org.bytedeco.pytorch.T_TensorT_TensorTensor_T_T;
import org.bytedeco.pytorch.T_TensorTensor_T;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Starling's and PyTorch's recurrent layers, two bidirectional layers with equal weights: results and all gradients.
 */
class RecurrentParityTest {
    private static final int BATCH = 5;
    private static final int STEPS = 11;
    private static final int INPUTS = 7;
    private static final int UNITS = 19;

    @BeforeAll
    static void useOneThread() {
        Torch.threads(1);
    }

    @ParameterizedTest
    @CsvSource({"LSTM", "GRU", "RNN"})
    void computesAndDifferentiatesAsPyTorch(String cell) {
        try (Scope scope = Scope.open("test"); PointerScope theirs = new PointerScope();
                Recurrent ours = switch (cell) {
                    case "LSTM" -> Lstm.of(INPUTS, UNITS).layers(2).bidirectional().build(Generator.seeded(1));
                    case "GRU" -> Gru.of(INPUTS, UNITS).layers(2).bidirectional().build(Generator.seeded(1));
                    default -> Rnn.of(INPUTS, UNITS).layers(2).bidirectional().build(Generator.seeded(1));
                }) {
            float[] input = Inputs.normal(2, BATCH, STEPS, INPUTS);
            Module module = module(cell);
            Iterator<Parameter> parameters = ours.parameters().values().iterator();
            TensorVector weights = module.parameters();
            for (long i = 0; i < weights.size(); i++) {
                Tensor value = parameters.next().value();
                assertThat(weights.get(i).sizes().vec().get()).isEqualTo(value.shape().dims());
                weights.get(i).detach().copy_(Torch.tensor(value.toFloats(), value.shape().dims()));
            }
            assertThat(parameters.hasNext()).isFalse();
            compare(ours(ours, input), theirs(module, weights, input));
        }
    }

    private static Module module(String cell) {
        switch (cell) {
            case "LSTM" -> {
                LSTMOptions options = new LSTMOptions(INPUTS, UNITS);
                options.num_layers().put(2);
                options.batch_first().put(true);
                options.bidirectional().put(true);
                return new LSTMImpl(options);
            }
            case "GRU" -> {
                GRUOptions options = new GRUOptions(INPUTS, UNITS);
                options.num_layers().put(2);
                options.batch_first().put(true);
                options.bidirectional().put(true);
                return new GRUImpl(options);
            }
            default -> {
                RNNOptions options = new RNNOptions(INPUTS, UNITS);
                options.num_layers().put(2);
                options.batch_first().put(true);
                options.bidirectional().put(true);
                return new RNNImpl(options);
            }
        }
    }

    /** Returns the results, then gradients of the sum of their squares with respect to x and the weights. */
    private static List<float[]> ours(Recurrent layer, float[] input) {
        Tensor x = Tensor.of(input, BATCH, STEPS, INPUTS);
        List<Tensor> watched = new ArrayList<>(List.of(x));
        layer.parameters().values().forEach(p -> watched.add(p.value()));
        Tape tape = new Tape().watch(watched.toArray(Tensor[]::new));
        List<float[]> all = new ArrayList<>();
        Tensor loss = tape.record(() -> {
            Recurrent.Result r = layer.forward(x, null, null);
            Tensor sum = Tensor.scalar(0).to(x.dtype());
            for (Tensor t : new Tensor[] {r.y(), r.state().h(), r.state().c()}) {
                if (t != null) {
                    all.add(t.toFloats());
                    sum = sum.add(t.square().sum());
                }
            }
            return sum;
        });
        Gradients gradients = tape.backward(loss);
        watched.forEach(t -> all.add(gradients.of(t).toFloats()));
        return all;
    }

    private static List<float[]> theirs(Module module, TensorVector weights, float[] input) {
        org.bytedeco.pytorch.Tensor x = Torch.tensor(input, BATCH, STEPS, INPUTS).requires_grad_(true);
        List<org.bytedeco.pytorch.Tensor> results = switch (module) {
            case LSTMImpl lstm -> {
                T_TensorT_TensorTensor_T_T r = lstm.forward(x);
                yield List.of(r.get0(), r.get1().get0(), r.get1().get1());
            }
            case GRUImpl gru -> states(gru.forward(x));
            default -> states(((RNNImpl) module).forward(x));
        };
        org.bytedeco.pytorch.Tensor loss = torch.zeros(new long[0]);
        for (org.bytedeco.pytorch.Tensor t : results) {
            loss = loss.add(t.mul(t).sum());
        }
        loss.backward();
        Stream<org.bytedeco.pytorch.Tensor> watched = Stream.concat(Stream.of(x),
                Stream.iterate(0L, i -> i + 1).limit(weights.size()).map(weights::get));
        return Stream.concat(results.stream().map(t -> t.detach()), watched.map(t -> t.grad())).map(Torch::floats)
                .toList();
    }

    private static List<org.bytedeco.pytorch.Tensor> states(T_TensorTensor_T r) {
        return List.of(r.get0(), r.get1());
    }

    private static void compare(List<float[]> ours, List<float[]> theirs) {
        assertThat(ours).hasSameSizeAs(theirs);
        for (int i = 0; i < ours.size(); i++) {
            double scale = 0;
            double distance = 0;
            assertThat(ours.get(i)).hasSameSizeAs(theirs.get(i));
            for (int k = 0; k < ours.get(i).length; k++) {
                scale = Math.max(scale, Math.abs(theirs.get(i)[k]));
                distance = Math.max(distance, Math.abs(ours.get(i)[k] - theirs.get(i)[k]));
            }
            assertThat(scale).isPositive();
            assertThat(distance / scale).as("result or gradient %d", i).isLessThan(1e-5);
        }
    }
}
