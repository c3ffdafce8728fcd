package dev.starling.spark;

import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.AdamW;
import dev.starling.nn.optim.Schedule;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.search.Search.Recipe;
import dev.starling.tensor.TensorException;
import java.util.Arrays;

/** Losses, optimisers and strategies by name, for command lines and for parameters that are saved as text. */
public final class Choices {
    private Choices() {
    }

    /** Returns {@code cross-entropy}, {@code binary-cross-entropy} or {@code mean-squared}. */
    public static Recipe<Loss> loss(String name) {
        return switch (name) {
            case "cross-entropy" -> Loss::crossEntropy;
            case "binary-cross-entropy" -> Loss::binaryCrossEntropy;
            case "mean-squared" -> Loss::meanSquared;
            default -> throw unknown("loss", name, "cross-entropy, binary-cross-entropy or mean-squared");
        };
    }

    /** Returns {@code adam}, {@code adamw} or {@code sgd} (momentum 0.9), at a rate that follows one cycle. */
    public static OptimizerFactory optimizer(String name, double rate) {
        return switch (name) {
            case "adam" -> (model, steps) -> Adam.over(model).rate(Schedule.oneCycle(rate, steps)).build();
            case "adamw" -> (model, steps) -> AdamW.over(model).rate(Schedule.oneCycle(rate, steps)).build();
            case "sgd" -> (model, steps) -> Sgd.over(model).rate(Schedule.oneCycle(rate, steps)).momentum(0.9).build();
            default -> throw unknown("optimiser", name, "adam, adamw or sgd");
        };
    }

    /**
     * Returns {@code ring}, {@code gossip}, {@code gossip:PERIOD} (0 steps for a whole pass), {@code ps},
     * {@code ps:SERVERS} or {@code ps:SERVERS:STALENESS}.
     */
    public static Strategy strategy(String text) {
        String[] parts = text.split(":");
        int[] numbers;
        try {
            numbers = Arrays.stream(parts).skip(1).mapToInt(Integer::parseInt).toArray();
        } catch (NumberFormatException e) {
            numbers = new int[3];
        }
        if (parts[0].equals("ring") && numbers.length == 0) {
            return Strategy.ring();
        } else if (parts[0].equals("gossip") && numbers.length <= 1) {
            return numbers.length == 0 ? Strategy.gossip() : Strategy.gossip(numbers[0]);
        } else if (parts[0].equals("ps") && numbers.length <= 2) {
            int servers = numbers.length == 0 ? 1 : numbers[0];
            return numbers.length < 2 ? Strategy.asynchronousServers(servers) : Strategy.servers(servers, numbers[1]);
        }
        throw unknown("strategy", text, "ring, gossip, gossip:PERIOD, ps, ps:SERVERS or ps:SERVERS:STALENESS");
    }

    private static TensorException unknown(String what, String name, String choices) {
        return TensorException.argument("spark", "there is no " + what + " " + name, "name " + choices);
    }
}
