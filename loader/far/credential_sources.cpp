// The places that keys come from.
#include "loader/far/credential_sources.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "core/clock.h"
#include "core/error.h"
#include "core/number.h"
#include "core/regular_file.h"
#include "core/text.h"
#include "loader/far/answer.h"
#include "loader/far/http.h"
#include "loader/far/url.h"

extern char** environ;

namespace penstock::detail {
namespace {

// Without a byte; an exchange has twice as long, so that each service has 10 s in all, an instance's for three of them.
constexpr double kServiceTimeout_s = 5, kInstanceTimeout_s = 2, kFirstInstanceTimeout_s = 1;
constexpr int64_t kProcessTimeout_ns = 60'000'000'000;
constexpr auto kProcessStep = std::chrono::milliseconds(10);
constexpr size_t kMostOfDocument = 64 << 10;
constexpr uint64_t kMostOfFile = 1 << 20;

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n"), end = text.find_last_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::optional<std::string> text_of_file(const std::string& path) {
  std::error_code ignored;  // of what cannot be looked at, the user has no file there
  if (!std::filesystem::exists(path, ignored)) return {};
  return read_text(path, kMostOfFile);
}

std::string file_in_home(const char* variable, const char* name) {
  const std::string set = environment(variable);
  return set.empty() ? concat(environment("HOME"), "/.aws/", name) : set;
}

std::string profile_name() {
  const std::string name = environment("AWS_PROFILE");
  return name.empty() ? "default" : name;
}

Error no_key(const std::string& source, const std::string& fact) {
  return config_error(concat("credentials of ", source, ": ", fact, "; expected an access key"));
}

/// The keys in a JSON document, as containers, instances and processes give them.
Credentials parse_document(const std::string& text, const char* token_key, const std::string& source) {
  const auto get = [&](const nlohmann::json& json, const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : std::string();
  };
  nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw no_key(source, "its answer is no JSON object");
  Credentials found{get(json, "AccessKeyId"), get(json, "SecretAccessKey"), get(json, token_key),
                    parse_iso_time(get(json, "Expiration")), source};
  if (found.key_id.empty() || found.secret.empty())
    throw no_key(source, "its answer has no AccessKeyId and SecretAccessKey");
  return found;
}

std::string ask(HttpRequest request, double timeout_s, const std::string& source) {
  timeout_s = std::min(timeout_s, environment_seconds("PENSTOCK_DOWNLOAD_TIMEOUT", timeout_s));
  request.connect_timeout_s = request.stall_timeout_s = timeout_s;
  request.total_timeout_s = 2 * timeout_s;
  request.follows_redirects = false;  // what is asked with is secret
  const HttpResponse response = exchange(request);
  if (response.attempt.end != Attempt::End::kAnswered) throw no_key(source, response.problem);
  if (response.attempt.status != 200)
    throw no_key(source, concat("status ", response.attempt.status, " ", response.attempt.code));
  return response.body;
}

std::optional<Credentials> from_environment() {
  Credentials found{environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"),
                    environment("AWS_SESSION_TOKEN"), 0, "environment AWS_ACCESS_KEY_ID"};
  if (found.key_id.empty() && found.secret.empty()) return {};
  if (found.key_id.empty() || found.secret.empty())
    throw no_key("environment", found.key_id.empty() ? "AWS_ACCESS_KEY_ID is not set, AWS_SECRET_ACCESS_KEY is"
                                                     : "AWS_SECRET_ACCESS_KEY is not set, AWS_ACCESS_KEY_ID is");
  return found;
}

std::string endpoint_of(const char* variable) {
  std::string endpoint = environment(variable);
  while (endpoint.ends_with('/')) endpoint.pop_back();
  return endpoint;
}

std::string sts_endpoint(const std::string& region) {
  const std::string endpoint = endpoint_of("AWS_ENDPOINT_URL_STS");
  return endpoint.empty() ? concat("https://sts.", region, ".amazonaws.com") : endpoint;
}

Credentials keys_of_sts(const std::string& answer, const std::string& source) {
  Credentials found{xml_value(answer, "AccessKeyId"), xml_value(answer, "SecretAccessKey"),
                    xml_value(answer, "SessionToken"), parse_iso_time(xml_value(answer, "Expiration")), source};
  if (found.key_id.empty() || found.secret.empty()) throw no_key(source, "the answer of STS has no key");
  return found;
}

std::optional<Credentials> from_web_identity(const std::string& region) {
  const std::string file = environment("AWS_WEB_IDENTITY_TOKEN_FILE"), role = environment("AWS_ROLE_ARN");
  if (file.empty() || role.empty()) return {};
  const std::string source = concat("web identity ", file, " for ", role);
  const auto token = text_of_file(file);
  if (!token) throw no_key(source, "the token's file cannot be read");
  std::string session = environment("AWS_ROLE_SESSION_NAME");
  if (session.empty()) session = "penstock";
  const std::string body = canonical_query({{"Action", "AssumeRoleWithWebIdentity"},
                                            {"Version", "2011-06-15"},
                                            {"RoleArn", role},
                                            {"RoleSessionName", session},
                                            {"WebIdentityToken", trimmed(*token)}});
  const std::string answer = ask({.method = "POST",
                                  .url = sts_endpoint(region) + "/",
                                  .headers = {{"content-type", "application/x-www-form-urlencoded"}},
                                  .body = body},
                                 kServiceTimeout_s, source);
  return keys_of_sts(answer, source);
}

/// What `command` prints, run by a shell, until it has ended: what it leaves behind may keep the pipe open. What it
/// says on stderr may hold secrets, and is not passed on.
std::string output_of(const std::string& command, const std::string& source) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw errno_error("credentials of " + source, "expected a pipe");
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string shell = "sh", flag = "-c", text = command;
  std::array<char*, 4> words{shell.data(), flag.data(), text.data(), nullptr};
  pid_t child = 0;
  const int failure = posix_spawn(&child, "/bin/sh", &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string output;
  std::array<char, 4096> buffer{};
  const int64_t end_ns = now_ns() + kProcessTimeout_ns;
  int status = 0;
  bool has_ended = failure != 0, is_late = false;
  while (!has_ended) {
    is_late = now_ns() > end_ns || output.size() > kMostOfDocument;
    if (is_late) kill(child, SIGKILL);
    const pid_t ended = waitpid(child, &status, is_late ? 0 : WNOHANG);
    has_ended = ended != 0;  // less than 0 where somebody else has waited for it
    for (ssize_t count = 0; (count = read(ends[0], buffer.data(), buffer.size())) > 0;)
      if (output.size() <= kMostOfDocument) output.append(buffer.data(), static_cast<size_t>(count));
    if (!has_ended) std::this_thread::sleep_for(kProcessStep);
  }
  close(ends[0]);
  if (failure != 0) throw no_key(source, "no shell could be started");
  if (output.size() > kMostOfDocument) throw no_key(source, concat("it prints more than ", kMostOfDocument, " bytes"));
  if (is_late) throw no_key(source, concat("it has not ended in ", kProcessTimeout_ns / 1'000'000'000, " s"));
  if (status != 0) throw no_key(source, concat("its process ended with status ", WEXITSTATUS(status)));
  return output;
}

std::string value_in_profile(const std::string& name, const std::string& key) {
  const auto credentials = text_of_file(file_in_home("AWS_SHARED_CREDENTIALS_FILE", "credentials")).value_or("");
  if (auto value = ini_value(credentials, name, key); !value.empty()) return value;
  const auto config = text_of_file(file_in_home("AWS_CONFIG_FILE", "config")).value_or("");
  return ini_value(config, name == "default" ? name : "profile " + name, key);
}

/// What only AWS's own tools follow: they give the keys of any profile, by a login, a role or a chain of roles, and
/// renew them.
void check_has_keys_of_its_own(const std::string& name) {
  for (const char* key : {"sso_session", "sso_start_url", "role_arn"})
    if (!value_in_profile(name, key).empty())
      throw config_error(
          concat("credentials of profile ", in_quotes(name), ": has ", key, ", which the AWS command line ",
                 "follows; expected AWS_PROFILE to name a profile with credential_process = aws configure ",
                 "export-credentials --profile ", name, " --format process"));
}

/// Keys of the profile's own, or those that its credential_process gives.
std::optional<Credentials> keys_of_profile(const std::string& name) {
  check_has_keys_of_its_own(name);
  Credentials found{
      value_in_profile(name, "aws_access_key_id"), value_in_profile(name, "aws_secret_access_key"),
      value_in_profile(name, "aws_session_token"), 0,
      concat("profile ", in_quotes(name), " in ", file_in_home("AWS_SHARED_CREDENTIALS_FILE", "credentials"))};
  if (!found.key_id.empty() && !found.secret.empty()) return found;
  const auto command = value_in_profile(name, "credential_process");
  if (command.empty()) return {};
  const std::string source = concat("credential_process of profile ", in_quotes(name));
  return parse_document(output_of(command, source), "SessionToken", source);
}

std::optional<Credentials> from_profile() {
  auto found = keys_of_profile(profile_name());
  if (!found && !environment("AWS_PROFILE").empty())
    throw no_key(concat("profile ", in_quotes(profile_name())),
                 "neither file in ~/.aws has a key or a credential_process of it");
  return found;
}

std::optional<Credentials> from_container() {
  const std::string relative = environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const std::string full = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (relative.empty() && full.empty()) return {};
  HttpRequest request{.url = relative.empty() ? full : "http://169.254.170.2" + relative};
  std::string token = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  const std::string file = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  if (!file.empty()) token = trimmed(text_of_file(file).value_or(""));
  if (!token.empty()) request.headers["authorization"] = token;
  const std::string source = "the container's service";
  return parse_document(ask(std::move(request), kServiceTimeout_s, source), "Token", source);
}

std::optional<Credentials> from_instance() {
  if (environment("AWS_EC2_METADATA_DISABLED") == "true") return {};
  std::string endpoint = environment("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (endpoint.empty()) endpoint = "http://169.254.169.254";
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const std::string source = "the instance's metadata service";
  HttpRequest first{.method = "PUT",
                    .url = endpoint + "/latest/api/token",
                    .headers = {{"x-aws-ec2-metadata-token-ttl-seconds", "21600"}}};
  first.connect_timeout_s = first.stall_timeout_s = kFirstInstanceTimeout_s;
  first.total_timeout_s = 2 * kFirstInstanceTimeout_s;
  const HttpResponse answer = exchange(first);
  // A machine that is none of Amazon's has nobody there.
  if (answer.attempt.end != Attempt::End::kAnswered || answer.attempt.status != 200) return {};
  const std::map<std::string, std::string> headers{{"x-aws-ec2-metadata-token", answer.body}};
  const std::string folder = endpoint + "/latest/meta-data/iam/security-credentials/";
  const std::string role = trimmed(ask({.url = folder, .headers = headers}, kInstanceTimeout_s, source));
  return parse_document(ask({.url = folder + role, .headers = headers}, kInstanceTimeout_s, source), "Token", source);
}

/// Keys become parts of headers, in which a line break would begin another one.
Credentials checked(const Credentials& keys) {
  const auto is_plain = [](unsigned char c) { return c > ' ' && c < 0x7f; };
  for (const auto& [name, value] :
       {std::pair("access key id", &keys.key_id), {"secret key", &keys.secret}, {"session token", &keys.token}})
    if (!std::ranges::all_of(*value, is_plain))
      throw config_error(
          concat("credentials of ", keys.source, ": the ", name,
                 " has a line break or another byte that is no visible ASCII; expected it as it was given out"));
  return keys;
}

}  // namespace

double environment_seconds(const char* name, double fallback) {
  const auto value = parse_number<double>(environment(name));
  return value && *value > 0 ? *value : fallback;
}

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string ini_value(const std::string& text, const std::string& section, const std::string& key) {
  std::istringstream lines(text);
  bool is_inside = false;
  for (std::string line; std::getline(lines, line);) {
    line = trimmed(line);
    if (line.starts_with('[')) is_inside = trimmed(line.substr(1, line.find(']') - 1)) == section;
    const size_t equals = line.find('=');
    if (!is_inside || equals == std::string::npos || line.starts_with('#') || line.starts_with(';')) continue;
    if (trimmed(line.substr(0, equals)) == key) return trimmed(line.substr(equals + 1));
  }
  return "";
}

std::string profile_value(const std::string& key) { return value_in_profile(profile_name(), key); }

std::optional<Credentials> find_credentials(const std::string& region) {
  if (auto found = from_environment()) return checked(*found);
  if (auto found = from_web_identity(region)) return checked(*found);
  if (auto found = from_profile()) return checked(*found);
  if (auto found = from_container()) return checked(*found);
  if (auto found = from_instance()) return checked(*found);
  return {};
}

std::optional<Credentials> find_google_credentials(const std::string& region) {
  Credentials own{environment("GS_ACCESS_KEY_ID"), environment("GS_SECRET_ACCESS_KEY"), "", 0,
                  "environment GS_ACCESS_KEY_ID"};
  if (!own.key_id.empty() && !own.secret.empty()) return checked(own);
  if (auto found = from_environment()) return checked(*found);
  if (auto found = from_web_identity(region)) return checked(*found);
  if (auto found = from_profile()) return checked(*found);
  return {};
}

}  // namespace penstock::detail
