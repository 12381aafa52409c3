"""Untrusted SQL: queries and expressions that may only read known tables.

Unless a session trusts its SQL, Spark receives text that is rendered from tokens (`for_spark`,
`query_for_spark`): a query in a position where Spark's grammar allows only queries, with functions
from `ALLOWED_FUNCTIONS` and tables in the catalog.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sfumato.sql_tokens import NAME, SIGN, SqlToken, TokenError, quote_name, render, tokenize

TRUST_SETTING = "sfumato.trustText"
"""Session setting: "true" permits SQL to use all of Spark."""

DOUBLE_QUOTED_NAMES = "spark.sql.ansi.doubleQuotedIdentifiers"
PLAIN_ESCAPES = "spark.sql.parser.escapedStringLiterals"
OWN_CLASSES = "org.apache.spark.sql.catalyst."

BEFORE_TABLE = ("join", "table", "stream", "lateral", "apply")
NO_LIST = ("where", "having", "qualify", "limit", "offset")
BEFORE_BY = ("group", "order", "sort", "cluster", "distribute", "partition")
ENDS_TABLES = ("select", "union", "intersect", "except", "minus", "setminus")
NO_OPERANDS = (
    *("select", "all", "distinct", "by", "and", "or", "not", "case", "when", "then", "else", "on"),
    *("where", "having", "qualify", "between", "in", "like", "values"),
)
BEFORE = 4  # number of preceding tokens that are inspected
NO_TOKEN = SqlToken("", "", 0, 0)  # stands for a missing token at either end
QUERY_BEGINS = ("select", "with", "from", "values", "table")
PATH_SIGNS = frozenset("/\\:")
COLUMN_FUNCTIONS = ("above", "alternatives", "below", "between", "circular", "samples")


def is_trusted(spark: SparkSession) -> bool:
    return str(spark.conf.get(TRUST_SETTING, "false")).lower() == "true"


def refusal_text(what: str) -> str:
    """Return the message for refused SQL, with the setting that permits it."""
    return (
        f"{what}, which is not allowed in a query; in a session whose queries you trust, set "
        f'spark.conf.set("{TRUST_SETTING}", "true")'
    )


def check_expression(argument: str, text: str, spark: SparkSession, hint: str = "") -> str:
    """Return one expression's text for Spark. Raises ValueError if it may have side effects.

    hint : end of the error
    """
    if is_trusted(spark):
        return text
    try:
        tokens = tokenize(text)
        if ends := [token for token in tokens if token.is_sign(";")]:
            raise TokenError("the text must not contain ;", ends[0].start, ends[0].end)
        check_tokens(tokens, text, spark)
    except TokenError as error:
        raise ValueError(
            f"`{argument}` must be one SQL expression; got {_shorten(text)!r}: {error} "
            f"(character {error.start + 1}){hint}"
        ) from None
    return render(_insert_select_all(tokens))


def for_spark(text: str, spark: SparkSession) -> str:
    """Return the text that Spark receives for an expression that has passed `check_expression`."""
    return text if is_trusted(spark) else render(_insert_select_all(tokenize(text)))


def query_for_spark(text: str, spark: SparkSession, *, frames: bool = False) -> str:
    """Return the text that Spark receives for a query. Raises TokenError for a refused query."""
    if is_trusted(spark):
        return text
    tokens = tokenize(text, frames=frames)
    check_tokens(tokens, text, spark)
    # Only a query is valid in this position: no INSERT, no command, no script.
    return f"SELECT * FROM ( {render(_insert_select_all(tokens), braces=frames)} )"


def _check_quotes(tokens: Sequence[SqlToken], text: str, spark: SparkSession) -> None:
    # Both settings change the meaning of quotes, so that Spark would read the text differently.
    quotes = [t for t in tokens if t.kind == "string"]
    if quotes and str(spark.conf.get(PLAIN_ESCAPES, "false")).lower() == "true":
        raise TokenError(f"queries are not accepted while {PLAIN_ESCAPES} is true", 0, len(text))
    double = next((t for t in quotes if text[t.end - 1] == '"'), None)
    if double and str(spark.conf.get(DOUBLE_QUOTED_NAMES, "false")).lower() == "true":
        reason = f"write names in backquotes while {DOUBLE_QUOTED_NAMES} is true"
        raise TokenError(reason, double.start, double.end)


def _insert_select_all(tokens: Sequence[SqlToken]) -> Iterator[SqlToken]:
    """Yield SELECT ALL for SELECT, which can otherwise be an alias or start a TRANSFORM script."""
    for before, token, following in zip(
        [NO_TOKEN, *tokens], tokens, [*tokens[1:], NO_TOKEN], strict=False
    ):
        yield token
        says_so = before.is_sign(".") or following.is_word("all", "distinct")
        if token.is_word("select") and not says_so:
            yield SqlToken(NAME, "ALL", token.end, token.end)


# ---- names in a query ----------------------------------------------------------------------------


def check_tokens(
    tokens: Sequence[SqlToken], text: str, spark: SparkSession, *, constructs: bool = False
) -> None:
    """Raise TokenError for a function, table or clause that reaches beyond the data.

    constructs : whether constructs of sfumato's language are allowed, and unknown functions as well
    """
    _check_quotes(tokens, text, spark)
    walk = _Walk(tokens, constructs)
    for name, token in walk.functions.items():
        if name not in ALLOWED_FUNCTIONS:
            exists = name == "identifier" or spark.catalog.functionExists(token.value)
            if exists or not constructs:
                raise _not_allowed(token, exists)
        elif _is_hidden(name, spark):
            reason = (
                f"{token.value} is a function of the session that hides Spark's function with "
                "this name"
            )
            raise TokenError(refusal_text(reason), token.start, token.end)
    for parts in walk.tables:
        start, end, names = parts[0].start, parts[-1].end, [part.value for part in parts]
        if is_path(names):
            raise TokenError(refusal_text(f"{'.'.join(names)} reads files by path"), start, end)
        if len(parts) > 1 and not is_catalog_table(spark, names):
            reason = f"there is no table or view {'.'.join(names)}, so it would be read as a file"
            raise TokenError(refusal_text(reason), start, end)


def column_function_reason(function: str) -> str:
    """Return the reason why a function that adds a column is not allowed here, or ""."""
    name = function.lower()
    reason = f"{name} adds a column to a table: write FROM {name}(table, ...)"
    return reason if name in COLUMN_FUNCTIONS else ""


def _not_allowed(token: SqlToken, exists: bool) -> TokenError:
    reason = column_function_reason(token.value) or f"there is no function {token.value}"
    if exists:
        reason = f"{token.value} is a function of the session or can access more than the data"
        reason = refusal_text(reason)
    return TokenError(reason, token.start, token.end, function="" if exists else token.value)


def _is_hidden(name: str, spark: SparkSession) -> bool:
    """Return whether a session function hides a Spark function with the same name."""
    try:
        found = spark.catalog.getFunction(name).className or OWN_CLASSES
    except PySparkException:  # part of the grammar, such as cast
        return False
    return not found.startswith(OWN_CLASSES)


def is_path(parts: Sequence[str]) -> bool:
    return any(PATH_SIGNS & set(part) for part in parts)


def is_catalog_table(spark: SparkSession, parts: Sequence[str]) -> bool:
    """Return whether the catalog has a table with this name, excluding files and formats."""
    try:
        return bool(spark.catalog.tableExists(".".join(map(quote_name, parts))))
    except PySparkException:
        return False


@dataclass
class _Level:
    """The parser state within one pair of brackets.

    kind : "table" if a table is in the parentheses, "call" for arguments, otherwise "group"
    tables : whether a name after a comma may be a table
    query : whether the content starts like a query
    no_list : the clause in which a comma is not allowed, or ""
    expects_ctes : whether names of common table expressions are expected
    """

    kind: str = "group"
    tables: bool = False
    query: bool = False
    no_list: str = ""
    expects_ctes: bool = False
    empty: bool = True


class _Walk:
    """A walk over tokens that finds called functions and possible table names.

    A name may be a table wherever Spark's grammar could read a table: after FROM, JOIN, TABLE,
    LATERAL, STREAM or APPLY, and after a comma or parenthesis that follows FROM or JOIN, unless the
    list of tables has ended.

    functions : called functions by name;  tables : the parts of names that may be tables
    """

    def __init__(self, tokens: Sequence[SqlToken], constructs: bool) -> None:
        self.tokens = [*[NO_TOKEN] * BEFORE, *tokens, NO_TOKEN, NO_TOKEN]
        self.constructs, self.levels = constructs, [_Level()]
        self.functions: dict[str, SqlToken] = {}
        self.tables: list[list[SqlToken]] = []
        for place in range(BEFORE, BEFORE + len(tokens)):
            self._step(place, self.tokens[place], self.levels[-1])

    def _step(self, place: int, token: SqlToken, level: _Level) -> None:
        after_dot = self.tokens[place - 1].is_sign(".")
        if level.empty and token.kind == NAME:
            level.query = token.lower in QUERY_BEGINS
            level.expects_ctes = token.lower == "with" and level.kind != "call"
        if token.is_name:
            self._note_call(place, token, level)
            if not after_dot and self._may_be_table(place, level):
                self._note_table(place)
        level.empty = False
        if token.kind == SIGN:
            self._sign(place, token, level)
        elif token.kind == NAME and not after_dot:
            self._word(place, token, level)

    def _note_call(self, place: int, token: SqlToken, level: _Level) -> None:
        before = self.tokens[place - 1]
        if not self.tokens[place + 1].is_sign("("):
            return
        if before.is_sign("."):
            whole = self.tokens[place - 2].value or token.value
            reason = f"{whole}.{token.value} is a function with a qualified name"
            raise TokenError(refusal_text(reason), token.start, token.end)
        is_alias = before.is_word("as")  # alias with columns, or a type
        is_common = level.expects_ctes and (
            before.is_sign(",") or before.is_word("with", "recursive")
        )
        is_syntax = token.kind == NAME and token.lower in SYNTAX_BEFORE_PARENTHESIS
        if not (is_syntax or is_alias or is_common):
            self.functions.setdefault(token.lower, token)

    def _note_table(self, place: int) -> None:
        parts = [self.tokens[place]]
        while self.tokens[place + 1].is_sign(".") and self.tokens[place + 2].is_name:
            place += 2
            parts.append(self.tokens[place])
        if not self.tokens[place + 1].is_sign("("):
            self.tables.append(parts)

    def _may_be_table(self, place: int, level: _Level) -> bool:
        before = self.tokens[place - 1]
        if before.kind == SIGN:
            in_brackets = before.value == "(" and level.kind == "table"
            return in_brackets or (before.value == "," and level.tables)
        if before.is_word("from"):
            return not self._is_operand(place - 1, level)
        return before.is_word(*BEFORE_TABLE) and not self.tokens[place - 2].is_sign(".")

    def _is_operand(self, place: int, level: _Level) -> bool:
        """Return whether a FROM is part of an expression: in IS DISTINCT FROM, or in a call."""
        if level.kind == "call" and not level.query:
            return True
        operand, is_, distinct = self.tokens[place - 3 : place]
        if is_.is_word("not"):
            operand, is_ = self.tokens[place - 4], operand
        if not (distinct.is_word("distinct") and is_.is_word("is") and operand is not NO_TOKEN):
            return False
        # After SELECT, a comma or a dot, `is` can be a column with the alias `distinct`.
        if operand.kind == SIGN:
            return operand.value in (")", "]")
        return not operand.is_word(*NO_OPERANDS)

    def _sign(self, place: int, token: SqlToken, level: _Level) -> None:
        if token.value in ("(", "["):
            self.levels.append(self._opened(place, level))
        elif token.value in (")", "]"):
            self.levels.pop()
        elif token.value == "|>":
            level.tables, level.no_list = False, ""
        elif token.value == "," and level.no_list:
            reason = f"{level.no_list.upper()} must not be followed by a comma"
            raise TokenError(reason, token.start, token.end)

    def _opened(self, place: int, level: _Level) -> _Level:
        before = self.tokens[place - 1]
        if self.tokens[place].value == "[":
            return _Level()
        if self._may_be_table(place, level):
            return _Level("table", tables=True)
        is_syntax = before.kind == NAME and before.lower in SYNTAX_BEFORE_PARENTHESIS
        takes_arguments = not is_syntax or before.is_word("trim", "extract", "position")
        return _Level("call" if before.is_name and takes_arguments else "group")

    def _word(self, place: int, token: SqlToken, level: _Level) -> None:
        word, following = token.lower, self.tokens[place + 1]
        is_ours = self.constructs and following.kind == NAME
        if word == "using" and not (following.is_sign("(") or is_ours):
            reason = refusal_text("USING without a list of columns runs a script")
            raise TokenError(reason, token.start, token.end)
        if word == "with" and following.is_sign("("):
            raise TokenError(refusal_text("WITH gives options to a table"), token.start, token.end)
        if word == "join" or (word == "from" and not self._is_operand(place, level)):
            level.tables, level.no_list = True, ""
        elif word in NO_LIST and level.tables:
            level.tables, level.no_list = False, word
        elif word in ENDS_TABLES or (word == "by" and self.tokens[place - 1].is_word(*BEFORE_BY)):
            level.tables, level.no_list = False, ""
        elif word == "window" and self.tokens[place + 2].is_word("as"):
            level.no_list = ""
        if word in QUERY_BEGINS and word != "with":
            level.expects_ctes = False


def _shorten(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."


_FUNCTIONS = """
    abs acos acosh add_months aes_decrypt aes_encrypt aggregate any any_value
    approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine approx_top_k_estimate array array_agg array_append array_compact
    array_contains array_distinct array_except array_insert array_intersect array_join array_max
    array_min array_position array_prepend array_remove array_repeat array_size array_sort
    array_union arrays_overlap arrays_zip ascii asin asinh assert_true atan atan2 atanh avg base64
    bigint bin binary bit_and bit_count bit_get bit_length bit_or bit_xor bitmap_and_agg
    bitmap_bit_position bitmap_bucket_number bitmap_construct_agg bitmap_count bitmap_or_agg
    bool_and bool_or boolean bround btrim cardinality cast cbrt ceil ceiling char char_length
    character_length chr coalesce collate collation collect_list collect_set collect_union concat
    concat_ws contains conv convert_timezone corr cos cosh cot count count_if count_min_sketch
    counter_diff covar_pop covar_samp crc32 csc cume_dist curdate current_catalog current_database
    current_date current_schema current_time current_timestamp current_timezone current_user date
    date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd
    datediff datepart day dayname dayofmonth dayofweek dayofyear decimal decode degrees dense_rank
    double e element_at elt encode endswith equal_null every exists exp explode explode_outer
    expm1 extract factorial filter find_in_set first first_value flatten float floor forall
    format_number format_string from_base32 from_csv from_json from_unixtime from_utc_timestamp
    get get_json_object getbit greatest grouping grouping_id hash hex histogram_numeric
    hll_sketch_agg hll_sketch_estimate hll_union hll_union_agg hmac hour hypot if ifnull ilike
    initcap inline inline_outer instr int is_valid_utf8 is_valid_variant is_variant_null isnan
    isnotnull isnull jaro_winkler_similarity json_array_length json_object_keys json_tuple
    kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint
    kll_sketch_agg_double kll_sketch_agg_float kll_sketch_get_n_bigint kll_sketch_get_n_double
    kll_sketch_get_n_float kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double
    kll_sketch_get_quantile_float kll_sketch_get_rank_bigint kll_sketch_get_rank_double
    kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double
    kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double
    kll_sketch_to_string_float kurtosis lag last last_day last_value lcase lead least left len
    length levenshtein like listagg ln localtime localtimestamp locate log log10 log1p log2 lower
    lpad ltrim luhn_check make_date make_dt_interval make_interval make_time make_timestamp
    make_timestamp_ltz make_timestamp_ntz make_valid_utf8 make_ym_interval map map_concat
    map_contains_key map_entries map_filter map_from_arrays map_from_entries map_keys map_values
    map_zip_with mask max max_by md5 mean measure median min min_by minute mod mode
    monotonically_increasing_id month monthname months_between named_struct nanvl negative
    next_day now nth_value ntile nullif nullifzero nvl nvl2 octet_length overlay parse_json
    parse_url percent_rank percentile percentile_approx percentile_cont percentile_disc pi pmod
    posexplode posexplode_outer position positive pow power printf quarter quote radians
    raise_error rand randn random randstr range rank reduce regexp regexp_count regexp_extract
    regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr regr_avgx regr_avgy
    regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse
    right rint rlike round row_number rpad rtrim schema_of_csv schema_of_json schema_of_variant
    schema_of_variant_agg sec second sentences sequence session_user session_window sha sha1 sha2
    shiftleft shiftright shiftrightunsigned shuffle sign signum sin sinh size skewness slice
    smallint some sort_array soundex space spark_partition_id split split_part sqrt st_asbinary
    st_geogfromwkb st_geomfromwkb st_setsrid st_srid stack startswith std stddev stddev_pop
    stddev_samp str_to_map string string_agg struct substr substring substring_index sum tan tanh
    theta_difference theta_intersection theta_intersection_agg theta_sketch_agg
    theta_sketch_estimate theta_union theta_union_agg time time_bucket time_diff time_from_micros
    time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc
    timestamp timestamp_micros timestamp_millis timestamp_nanos timestamp_seconds timestampadd
    timestampdiff tinyint to_base32 to_binary to_char to_csv to_date to_json to_number to_time
    to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp to_varchar
    to_variant_object transform transform_keys transform_values translate trim trunc try_add
    try_aes_decrypt try_avg try_cast try_divide try_element_at try_make_interval
    try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_multiply
    try_parse_json try_parse_url try_subtract try_sum try_to_binary try_to_date try_to_number
    try_to_time try_to_timestamp try_url_decode try_validate_utf8 try_variant_array_append
    try_variant_get try_variant_insert try_variant_set tuple_difference_double
    tuple_difference_integer tuple_difference_theta_double tuple_difference_theta_integer
    tuple_intersection_agg_double tuple_intersection_agg_integer tuple_intersection_double
    tuple_intersection_integer tuple_intersection_theta_double tuple_intersection_theta_integer
    tuple_sketch_agg_double tuple_sketch_agg_integer tuple_sketch_estimate_double
    tuple_sketch_estimate_integer tuple_sketch_summary_double tuple_sketch_summary_integer
    tuple_sketch_theta_double tuple_sketch_theta_integer tuple_union_agg_double
    tuple_union_agg_integer tuple_union_double tuple_union_integer tuple_union_theta_double
    tuple_union_theta_integer typeof ucase unbase64 unhex uniform unix_date unix_micros
    unix_millis unix_nanos unix_seconds unix_timestamp upper url_decode url_encode user uuid
    validate_utf8 var_pop var_samp variance variant_array_append variant_delete variant_explode
    variant_explode_outer variant_get variant_insert variant_set variant_strip_nulls vector_avg
    vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm vector_normalize
    vector_sum version weekday weekofyear width_bucket window window_time xxhash64 year zeroifnull
    zip_with
"""
# Keywords before a parenthesis that is not the argument list of a function.
_SYNTAX = """
    aggregate all and any as between by case cast cross cube dec decimal distinct div else escape
    except exclude exists extend extract filter for from full group having if ilike in inner
    intersect interval is join lateral left like limit minus natural not offset on or order outer
    over pivot position qualify regexp repeatable right rlike rollup select semi setminus sets
    some stream table tablesample then trim try_cast union unpivot using values varchar char
    character numeric when where window within
"""

ALLOWED_FUNCTIONS = frozenset(_FUNCTIONS.split())
SYNTAX_BEFORE_PARENTHESIS = frozenset(_SYNTAX.split())
