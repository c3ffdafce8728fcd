package example;

import dev.starling.nn.Sequential;
import dev.starling.nn.serve.PredictionException;
import dev.starling.nn.serve.Predictor;
import dev.starling.tensor.TensorException;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.http.HttpStatus;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RestController;

/** Serves a model with Spring Boot: {@code POST /predict} with {@code [x, y]}, in virtual threads. */
@SpringBootApplication
public class SpringServing {
    @Bean
    Sequential model() {
        return Spirals.trained();
    }

    /** Spring closes the predictor before the model that it depends on. */
    @Bean
    Predictor predictor(Sequential model) {
        return Predictor.of(model, 2).build();
    }

    @RestController
    static class Predictions {
        private final Predictor predictor;

        Predictions(Predictor predictor) {
            this.predictor = predictor;
        }

        @PostMapping("/predict")
        float[] predict(@RequestBody float[] point) {
            return predictor.predict(point);
        }

        @ExceptionHandler
        ResponseEntity<String> overloaded(PredictionException e) {
            return ResponseEntity.status(HttpStatus.SERVICE_UNAVAILABLE).body(e.getMessage());
        }

        @ExceptionHandler
        ResponseEntity<String> malformed(TensorException e) {
            return ResponseEntity.badRequest().body(e.getMessage());
        }
    }

    /** Serves on port 8080, or the one given by {@code --server.port}. */
    public static void main(String[] arguments) {
        SpringApplication.run(SpringServing.class, arguments);
    }
}
