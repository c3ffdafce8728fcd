package example;

import dev.starling.nn.Sequential;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.springframework.boot.SpringApplication;
import org.springframework.context.ConfigurableApplicationContext;

/** Starts each server on a free port, sends requests from eight threads, compares answers with the model's, stops. */
final class ServingCheck {
    private static final int THREADS = 8;
    private static final int REQUESTS = 50;

    private ServingCheck() {
    }

    public static void main(String[] arguments) throws Exception {
        try (Sequential model = Spirals.trained(); HttpServing serving = new HttpServing(model, 0)) {
            check("HttpServing", serving.port(), model);
        }
        try (ConfigurableApplicationContext spring = SpringApplication.run(SpringServing.class, "--server.port=0")) {
            check("SpringServing", spring.getEnvironment().getRequiredProperty("local.server.port", Integer.class),
                    spring.getBean(Sequential.class));
        }
    }

    private static void check(String name, int port, Sequential model) throws Exception {
        URI uri = URI.create("http://localhost:" + port + "/predict");
        try (HttpClient client = HttpClient.newHttpClient();
                ExecutorService threads = Executors.newFixedThreadPool(THREADS)) {
            List<Future<Void>> clients = new ArrayList<>();
            for (int t = 0; t < THREADS; t++) {
                float x = t / 10f;
                clients.add(threads.submit(() -> {
                    for (int i = 0; i < REQUESTS; i++) {
                        float y = -i / 50f;
                        HttpResponse<String> answer = post(client, uri, "[" + x + ", " + y + "]");
                        require(answer.statusCode() == 200 && agrees(answer.body(), expected(model, x, y)), answer);
                    }
                    return null;
                }));
            }
            for (Future<Void> future : clients) {
                future.get(60, TimeUnit.SECONDS);
            }
            for (String malformed : List.of("[1, 2, 3]", "[1, NaN]")) {
                HttpResponse<String> refused = post(client, uri, malformed);
                require(refused.statusCode() == 400, refused);
            }
        }
        System.out.println(name + " answered " + THREADS * REQUESTS + " requests");
    }

    private static HttpResponse<String> post(HttpClient client, URI uri, String body) throws Exception {
        return client.send(HttpRequest.newBuilder(uri).header("Content-Type", "application/json")
                .POST(BodyPublishers.ofString(body)).build(), BodyHandlers.ofString());
    }

    private static float[] expected(Sequential model, float... point) {
        try (Scope scope = Scope.open("expected")) {
            return model.forward(Tensor.of(point, 1, 2)).toFloats();
        }
    }

    private static boolean agrees(String body, float[] expected) {
        String[] numbers = body.replaceAll("[\\[\\]\\s]", "").split(",");
        return numbers.length == 2 && Math.abs(Float.parseFloat(numbers[0]) - expected[0]) < 1e-4
                && Math.abs(Float.parseFloat(numbers[1]) - expected[1]) < 1e-4;
    }

    private static void require(boolean condition, HttpResponse<String> answer) {
        if (!condition) {
            throw new AssertionError("answer " + answer.statusCode() + " " + answer.body());
        }
    }
}
