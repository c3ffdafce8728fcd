package dev.starling.jmh.pytorch;

import dev.starling.jmh.Update;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.bytedeco.pytorch.CompilationUnit;
import org.bytedeco.pytorch.Function;
import org.bytedeco.pytorch.IValue;
import org.bytedeco.pytorch.IValueVector;
import org.bytedeco.pytorch.NoGradGuard;
import org.bytedeco.pytorch.QualifiedName;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * PyTorch's fused optimisers ({@code fused=True} in Python), which pass over memory once. Its C++ library has no class
 * for them; a script of one call does.
 */
final class TorchUpdate {
    private static final String NAME = "update";

    private final List<Tensor> parameters;
    /** For each parameter the mean of gradients, and for Adam the mean of squares. */
    private final List<List<IValue>> state = new ArrayList<>();
    private final IValue steps;
    private final Function function;

    /** Makes an optimiser; {@code layers} owns its state. */
    TorchUpdate(LayerBuilder layers, Update update, double rate) {
        parameters = layers.parameters();
        int kept = update == Update.SGD ? 1 : 2;
        for (Tensor parameter : parameters) {
            state.add(Stream.generate(() -> layers.own(new IValue(torch.zeros_like(parameter.detach())))).limit(kept)
                .toList());
        }
        steps = layers.own(new IValue(torch.zeros(1)));
        CompilationUnit unit = layers.own(torch.compile(source(update, rate)));
        function = layers.own(unit.get_function(new QualifiedName(NAME)));
    }

    private String source(Update update, double rate) {
        String parts = update == Update.SGD ? "pgm" : "pgmv";
        String arguments = IntStream.range(0, parameters.size())
            .mapToObj(i -> parts.chars().mapToObj(part -> (char) part + "" + i).collect(Collectors.joining(", ")))
            .collect(Collectors.joining(", "));
        String call = switch (update) {
            case SGD -> ("_fused_sgd_(all, %s, %s, weight_decay=0.0, momentum=%s, lr=%s, dampening=0.0, "
                + "nesterov=False, maximize=False, is_first_step=False)")
                .formatted(list("g"), list("m"), Update.MOMENTUM, rate);
            case ADAM -> "_fused_adam_" + adam(rate, 0);
            case ADAMW -> "_fused_adamw_" + adam(rate, Update.DECAY);
        };
        // PyTorch removes a call that changes no argument and no result, and it does not see the elements of a list.
        return "def %s(steps, %s):\n    steps.add_(1.0)\n    all = %s\n    torch.%s\n    return all\n"
            .formatted(NAME, arguments, list("p"), call);
    }

    private String adam(double rate, double decay) {
        return ("(all, %s, %s, %s, [], [%s], lr=%s, beta1=%s, beta2=%s, weight_decay=%s, eps=%s, amsgrad=False, "
            + "maximize=False)").formatted(list("g"), list("m"), list("v"),
                String.join(", ", Collections.nCopies(parameters.size(), "steps")), rate, Update.BETA1, Update.BETA2,
                decay, Update.EPSILON);
    }

    private String list(String part) {
        return IntStream.range(0, parameters.size()).mapToObj(i -> part + i)
            .collect(Collectors.joining(", ", "[", "]"));
    }

    /** Forgets the gradients. */
    void clear() {
        parameters.forEach(parameter -> parameter.mutable_grad().reset());
    }

    /** Updates the parameters by their gradients. The innermost {@code PointerScope} owns what it makes. */
    void step() {
        try (NoGradGuard plain = new NoGradGuard()) {
            IValueVector arguments = new IValueVector(steps);
            for (int i = 0; i < parameters.size(); i++) {
                arguments.push_back(new IValue(parameters.get(i)));
                arguments.push_back(new IValue(parameters.get(i).grad()));
                state.get(i).forEach(arguments::push_back);
            }
            function.run(arguments);
        }
    }
}
