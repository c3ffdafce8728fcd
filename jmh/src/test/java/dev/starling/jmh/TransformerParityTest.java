package dev.starling.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.autograd.Gradients;
import dev.starling.autograd.Tape;
import dev.starling.jmh.pytorch.Torch;
import dev.starling.nn.layer.TransformerDecoderLayer;
import dev.starling.nn.layer.TransformerEncoderLayer;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.bytedeco.javacpp.PointerScope;
import org.bytedeco.pytorch.Module;
import org.bytedeco.pytorch.TransformerDecoderLayerImpl;
import org.bytedeco.pytorch.TransformerDecoderLayerOptions;
import org.bytedeco.pytorch.TransformerEncoderLayerImpl;
import org.bytedeco.pytorch.TransformerEncoderLayerOptions;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Results and gradients of the layers of a transformer, Starling's and PyTorch's, from equal weights. */
class TransformerParityTest {
    private static final int WIDTH = 12;
    private static final int HEADS = 3;
    private static final int HIDDEN = 20;
    private static final Map<String, String> NAMES = Map.of("attention.project.", "self_attn.in_proj_",
            "attention.out.", "self_attn.out_proj.", "cross.project.", "multihead_attn.in_proj_", "cross.out.",
            "multihead_attn.out_proj.", "perceptron.first.", "linear1.", "perceptron.second.", "linear2.",
            "norm", "norm");

    @BeforeAll
    static void useOneThread() {
        Torch.threads(1);
    }

    /** Copies our weights and returns theirs, in our order. */
    private static List<org.bytedeco.pytorch.Tensor> theirs(dev.starling.nn.Module ours, Module module) {
        List<org.bytedeco.pytorch.Tensor> all = new ArrayList<>();
        ours.parameters().forEach((path, p) -> {
            String own = NAMES.entrySet().stream().filter(e -> path.startsWith(e.getKey())).map(e ->
                    e.getValue() + path.substring(e.getKey().length())).findFirst().orElseThrow();
            org.bytedeco.pytorch.Tensor weight = module.named_parameters().get(own);
            assertThat(weight.sizes().vec().get()).isEqualTo(p.shape().dims());
            weight.detach().copy_(Torch.tensor(p.value().toFloats(), p.shape().dims()));
            all.add(weight);
        });
        assertThat(all).hasSize((int) module.parameters().size());
        return all;
    }

    private static void assertClose(String what, float[] ours, org.bytedeco.pytorch.Tensor theirs) {
        assertThat(ours).as(what).usingComparatorWithPrecision(5e-5f).containsExactly(Torch.floats(theirs.detach()));
    }

    @Test
    void encodesAsPyTorch() {
        try (Scope scope = Scope.open("test"); PointerScope theirs = new PointerScope();
                TransformerEncoderLayer layer = TransformerEncoderLayer.of(WIDTH, HEADS, HIDDEN, Generator.seeded(1))) {
            TransformerEncoderLayerOptions options = new TransformerEncoderLayerOptions(WIDTH, HEADS);
            options.dim_feedforward().put(HIDDEN);
            options.dropout().put(0);
            TransformerEncoderLayerImpl module = new TransformerEncoderLayerImpl(options);
            List<org.bytedeco.pytorch.Tensor> weights = theirs(layer, module);
            float[] input = Inputs.normal(2, 2, 5, WIDTH);
            float[] factors = Inputs.normal(3, 2, 5, WIDTH);
            Tensor x = Tensor.of(input, 2, 5, WIDTH);
            Tape tape = new Tape().watch(x);
            Tensor[] y = new Tensor[1];
            Tensor loss = tape.record(() -> {
                y[0] = layer.forward(x);
                return y[0].mul(Tensor.of(factors, 2, 5, WIDTH)).sum();
            });
            org.bytedeco.pytorch.Tensor theirX = Torch.tensor(input, 2, 5, WIDTH).set_requires_grad(true);
            // Their sequences come after the steps.
            org.bytedeco.pytorch.Tensor theirY = module.forward(theirX.transpose(0, 1)).transpose(0, 1);
            theirY.mul(Torch.tensor(factors, 2, 5, WIDTH)).sum().backward();
            assertClose("result", y[0].toFloats(), theirY.contiguous());
            assertClose("gradient", tape.backward(loss).of(x).toFloats(), theirX.grad());
            assertThat(weights).isNotEmpty();
        }
    }

    @Test
    void decodesAsPyTorch() {
        try (Scope scope = Scope.open("test"); PointerScope theirs = new PointerScope();
                TransformerDecoderLayer layer = TransformerDecoderLayer.of(WIDTH, HEADS, HIDDEN, Generator.seeded(4))) {
            TransformerDecoderLayerOptions options = new TransformerDecoderLayerOptions(WIDTH, HEADS);
            options.dim_feedforward().put(HIDDEN);
            options.dropout().put(0);
            TransformerDecoderLayerImpl module = new TransformerDecoderLayerImpl(options);
            List<org.bytedeco.pytorch.Tensor> weights = theirs(layer, module);
            float[] input = Inputs.normal(5, 2, 4, WIDTH);
            float[] memory = Inputs.normal(6, 2, 7, WIDTH);
            List<Tensor> watched = new ArrayList<>(List.of(Tensor.of(input, 2, 4, WIDTH),
                    Tensor.of(memory, 2, 7, WIDTH)));
            layer.parameters().values().forEach(p -> watched.add(p.value()));
            Tape tape = new Tape().watch(watched.toArray(Tensor[]::new));
            Tensor[] y = new Tensor[1];
            Tensor loss = tape.record(() -> {
                y[0] = layer.forward(watched.get(0), watched.get(1), null);
                return y[0].square().narrow(2, 0, 5).sum();
            });
            Gradients gradients = tape.backward(loss);
            org.bytedeco.pytorch.Tensor theirX = Torch.tensor(input, 2, 4, WIDTH).set_requires_grad(true);
            org.bytedeco.pytorch.Tensor theirMemory = Torch.tensor(memory, 2, 7, WIDTH).set_requires_grad(true);
            org.bytedeco.pytorch.Tensor none = new org.bytedeco.pytorch.Tensor();
            org.bytedeco.pytorch.Tensor causal = torch.triu(torch.ones(new long[] {4, 4}), 1)
                    .mul(new org.bytedeco.pytorch.Scalar(-1e30));
            org.bytedeco.pytorch.Tensor theirY = module.forward(theirX.transpose(0, 1), theirMemory.transpose(0, 1),
                    causal, none, none, none).transpose(0, 1);
            theirY.mul(theirY).narrow(2, 0, 5).sum().backward();
            assertClose("result", y[0].toFloats(), theirY.contiguous());
            List<org.bytedeco.pytorch.Tensor> theirWatched = new ArrayList<>(List.of(theirX, theirMemory));
            theirWatched.addAll(weights);
            for (int i = 0; i < theirWatched.size(); i++) {
                assertClose("gradient " + i, gradients.of(watched.get(i)).toFloats(), theirWatched.get(i).grad());
            }
        }
    }
}
