package example;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import dev.starling.nn.Layer;
import dev.starling.nn.serve.PredictionException;
import dev.starling.nn.serve.Predictor;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.Arrays;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Serves a model with the JDK's own HTTP server: {@code POST /predict} with {@code [x, y]}, in virtual threads. */
public final class HttpServing implements AutoCloseable {
    private final Predictor predictor;
    private final HttpServer server;
    private final ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor();

    HttpServing(Layer model, int port) throws IOException {
        predictor = Predictor.of(model, 2).build();
        server = HttpServer.create(new InetSocketAddress(port), 0);
        server.setExecutor(threads);
        server.createContext("/predict", this::predict);
        server.start();
    }

    int port() {
        return server.getAddress().getPort();
    }

    private void predict(HttpExchange exchange) throws IOException {
        try {
            String[] numbers = new String(exchange.getRequestBody().readNBytes(1000)).replaceAll("[\\[\\]\\s]", "")
                    .split(",");
            if (numbers.length != 2) {
                throw new NumberFormatException("expected [x, y]");
            }
            float[] point = {Float.parseFloat(numbers[0]), Float.parseFloat(numbers[1])};
            if (!Float.isFinite(point[0]) || !Float.isFinite(point[1])) {
                throw new NumberFormatException("expected finite numbers");
            }
            answer(exchange, 200, Arrays.toString(predictor.predict(point)));
        } catch (NumberFormatException e) {
            answer(exchange, 400, e.getMessage());
        } catch (PredictionException e) {
            answer(exchange, 503, e.getMessage());
        }
    }

    private static void answer(HttpExchange exchange, int status, String body) throws IOException {
        try (exchange) {
            byte[] bytes = body.getBytes();
            exchange.getResponseHeaders().set("Content-Type", status == 200 ? "application/json" : "text/plain");
            exchange.sendResponseHeaders(status, bytes.length);
            exchange.getResponseBody().write(bytes);
        }
    }

    @Override
    public void close() {
        server.stop(1);
        threads.close();
        predictor.close();
    }

    /** Serves on port 8080 until the process ends. */
    public static void main(String[] arguments) throws IOException {
        HttpServing serving = new HttpServing(Spirals.trained(), 8080);
        Runtime.getRuntime().addShutdownHook(new Thread(serving::close));
        System.out.println("POST [x, y] to http://localhost:" + serving.port() + "/predict");
    }
}
