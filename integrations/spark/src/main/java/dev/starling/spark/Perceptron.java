package dev.starling.spark;

import dev.starling.nn.Layer;
import dev.starling.nn.model.ModelFactory;
import dev.starling.nn.model.Networks;
import dev.starling.tensor.Generator;
import java.util.Arrays;
import java.util.Map;

/** Dense layers with ReLU between them. The setting {@code sizes} lists their widths: {@code 784,128,10}. */
public final class Perceptron implements ModelFactory {
    /** Called by reflection. */
    public Perceptron() {
    }

    @Override
    public Layer create(Map<String, String> settings, Generator generator) {
        String sizes = settings.get("sizes");
        if (sizes == null || !sizes.matches("\\s*\\d{1,9}\\s*(,\\s*\\d{1,9}\\s*)+")) {
            throw new IllegalArgumentException("sizes must be two or more numbers, such as 784,128,10; got " + sizes);
        }
        return Networks.mlp(generator, Arrays.stream(sizes.split(",")).map(String::strip).mapToLong(Long::parseLong)
                .toArray());
    }
}
