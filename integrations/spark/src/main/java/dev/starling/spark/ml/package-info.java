/** Starling in Spark ML's pipelines; needs MLlib on the class path. */
package dev.starling.spark.ml;
